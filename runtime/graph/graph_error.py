"""The error of programs that cannot be compiled and of graphs that cannot be run."""

from passat.ir.passat_error import PassatError


class GraphError(PassatError, ValueError, RuntimeError):
    """A program cannot be compiled, or a graph cannot be read or run. The message names the node or the function."""

    exit_code = 1
