"""`relay.testing.py_converter`: programs as Python source, and run as such."""

from passat.runtime.python_source import run_as_python, to_python

__all__ = ["run_as_python", "to_python"]
