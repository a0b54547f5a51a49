"""The engine: loads a program into an e-graph, saturates it in two phases, and extracts the result."""
