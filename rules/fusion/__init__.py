"""Fusion: which calls of a program are computed as one, as Relay decides it, and functions that stand for them."""
