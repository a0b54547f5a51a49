"""The engine: a program as an e-graph, saturated in two phases, and back."""
