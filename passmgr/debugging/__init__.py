"""Debugging of pipelines: bisection over passes, and crash reproducers."""
