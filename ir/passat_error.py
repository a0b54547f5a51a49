"""The base of the errors that Passat raises."""

from typing import ClassVar


class PassatError(Exception):
    """A model, a program, a rule, a pass, an option or a file cannot be used as it is. The message is a sentence that says why, and what to
    do about it. Errors are also ValueError, TypeError or the like, where they are such."""

    exit_code: ClassVar[int | None] = None
    """That of a command which ends with the error: 1 for what cannot be used, 2 for a command that makes no sense. None where users are
    never the cause."""
