"""`relay.nn`: the functions of neural networks."""

from typing import TYPE_CHECKING

from passat.relay import derived_nn, nn_functions, nn_windows
from passat.relay.derived_nn import *  # noqa: F403  # all of them belong here
from passat.relay.names import missing_name
from passat.relay.nn_functions import *  # noqa: F403
from passat.relay.nn_windows import *  # noqa: F403

__all__ = list(derived_nn.__all__)
__all__ += nn_functions.__all__
__all__ += nn_windows.__all__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name as an operator
    __getattr__ = missing_name("relay.nn", __all__)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
