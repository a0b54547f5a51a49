"""Extracts the best program from an e-graph."""
