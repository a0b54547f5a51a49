"""What runs, in which order and why: requirements as a graph, plans, and pictures of both."""
