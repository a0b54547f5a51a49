"""Function passes in worker processes."""
