"""Reverse-mode automatic differentiation: gradients of operators (`registry` and the tables) and of programs."""
