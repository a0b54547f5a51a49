"""The base class of the errors that Passat raises."""

from typing import Any as AnyValue
from typing import ClassVar

from passat.ir.long_words import with_short_words


class PassatError(Exception):
    """A model, program, rule, pass, option or file cannot be used. The message says why and how to fix it.

    Subclasses also derive from ValueError, TypeError and the like where appropriate.
    """

    exit_code: ClassVar[int | None] = None
    """Exit code of a command that fails with the error: 1 for unusable input, 2 for wrong usage, None for internal errors."""

    def __str__(self) -> str:
        return with_short_words(super().__str__())

    def __reduce__(self) -> tuple[AnyValue, ...]:  # errors are pickled between processes; constructors may take other arguments
        return _restored, (type(self), self.args, self._state())

    def _state(self) -> dict[str, AnyValue]:
        return self.__dict__


def _restored(kind: type[PassatError], args: tuple[AnyValue, ...], state: dict[str, AnyValue]) -> PassatError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
