"""Planning: which passes run, in which order and why; the requirement graph, plans, and drawings of both."""
