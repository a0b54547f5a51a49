"""The base class of the errors that Passat raises."""

from typing import ClassVar


class PassatError(Exception):
    """A model, program, rule, pass, option or file cannot be used. The message says why and how to fix it.

    Subclasses also derive from ValueError, TypeError and the like where appropriate.
    """

    exit_code: ClassVar[int | None] = None
    """Exit code of a command that fails with the error: 1 for unusable input, 2 for wrong usage, None for internal errors."""
