"""`relay.nn`: the functions of neural networks."""

from passat.relay import derived_nn, nn_functions, nn_windows
from passat.relay.derived_nn import *  # noqa: F403  # all of them belong here
from passat.relay.nn_functions import *  # noqa: F403
from passat.relay.nn_windows import *  # noqa: F403

__all__: list[str] = []
__all__ += derived_nn.__all__
__all__ += nn_functions.__all__
__all__ += nn_windows.__all__
