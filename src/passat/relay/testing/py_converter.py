"""`relay.testing.py_converter`: converts programs to Python source, and runs it."""

from passat.runtime.python_source import run_as_python, to_python

__all__ = ["run_as_python", "to_python"]
