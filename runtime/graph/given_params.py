"""Parameters of programs that are given with a build."""

import warnings
from collections.abc import Mapping
from typing import Any as AnyValue

from passat.ir.bind import bind_params_by_name
from passat.ir.expr import Constant, Function
from passat.ir.similar_names import did_you_mean
from passat.ir.tensor import Tensor
from passat.runtime.values import to_data


def with_params(function: Function, params: Mapping[str, AnyValue]) -> Function:
    """The function with constants in place of the parameters of those names, which must have their types.

    Names that are not parameters are ignored with a warning (in TVM without one). Raises TypeError for values of other types.
    """
    given = typed_params(function, params)
    names = [param.name_hint for param in function.params]
    unknown = [name for name in params if name not in given]
    if unknown:
        hint = did_you_mean(str(unknown[0]), names, 1)
        known = ", ".join(names) or "none"
        missing = f"params has {', '.join(map(repr, unknown))}, which main does not have; its parameters: {known}{hint}"
        warnings.warn(missing, UserWarning, stacklevel=4)
    return bind_params_by_name(function, given)


def typed_params(function: Function, params: Mapping[str, AnyValue], *, others: bool = False) -> dict[str, Constant]:
    """The values of parameters of a function as constants of their types; other names are left out. Values of other types keep them if
    `others`, otherwise they raise TypeError."""
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be values by name, not a {type(params).__name__}")
    found: dict[str, Constant] = {}
    for param in function.params:
        if param.name_hint in params:
            what = f"the parameter %{param.name_hint}"
            try:
                data = to_data(params[param.name_hint], param._checked_type, what)
            except TypeError:
                if not others:
                    raise
                data = to_data(params[param.name_hint], None, what)
            if not isinstance(data, Tensor):
                raise TypeError(f"{what} is a tuple; only tensors can be bound by name")
            found[param.name_hint] = Constant(data)
    return found
