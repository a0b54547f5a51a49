"""`relay.nn`: the functions of neural networks."""

import difflib
from typing import TYPE_CHECKING

from passat.relay import derived_nn, nn_functions, nn_training, nn_windows
from passat.relay.derived_nn import *  # noqa: F403  # all of them belong here
from passat.relay.nn_functions import *  # noqa: F403
from passat.relay.nn_training import *  # noqa: F403
from passat.relay.nn_windows import *  # noqa: F403

__all__: list[str] = []
__all__ += derived_nn.__all__
__all__ += nn_functions.__all__
__all__ += nn_training.__all__
__all__ += nn_windows.__all__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name as an operator

    def __getattr__(name: str) -> object:
        near = difflib.get_close_matches(name, __all__, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"relay.nn has no operator and no other name {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
