"""Taking the best program out of an e-graph."""
