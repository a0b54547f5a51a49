"""Checks rules on random well-typed instances: compares both sides by the kernels, and shrinks counterexamples."""
