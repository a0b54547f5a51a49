"""Errors for misspelled names: of operators and passes in the modules of `relay`, and of arguments of their functions."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any as AnyValue
from typing import Final

from passat.ir.similar_names import did_you_mean, same_names, suggestion

_MODULES: Final = ("relay", "relay.nn", "relay.image", "relay.qnn.op", "relay.transform")
"""The modules in which a name is looked for that another one lacks."""
_TVM_NAMES: Final = {"frontend": "passat.ir.onnx.load"}
"""Names of TVM, and what is nearest here."""


def missing_name(module: str, names: Iterable[str]) -> Callable[[str], object]:
    """The `__getattr__` of a module: raises AttributeError with the most similar of its names, or of other modules of `relay`."""

    def reject(name: str) -> object:
        if name.startswith("__"):  # what Python asks modules for
            raise AttributeError(f"{module} has no {name!r}")
        if (module, name) == ("relay", "quantize"):
            raise AttributeError("relay has no 'quantize', which calibrates: docs/coming-from/tvm.md lists what is not supported")
        if name in _TVM_NAMES:
            raise AttributeError(f"{module} has no {name!r}{suggestion([_TVM_NAMES[name]])}", name=name)
        elsewhere = list(_elsewhere(module))
        hint = did_you_mean(name, same_names(name, [*names, *elsewhere]) or names) or did_you_mean(name, elsewhere)
        raise AttributeError(f"{module} has no {name!r}{hint}", name=name)  # with a name, Python adds no hint of its own

    return reject


def _elsewhere(module: str) -> Iterator[str]:
    for other in _MODULES:
        found = sys.modules.get(f"passat.{other}")
        if other != module and found is not None:
            yield from (f"{other}.{name}" for name in dir(found) if not name.startswith("_") and callable(vars(found).get(name, callable)))


def signature_text(signature: inspect.Signature) -> str:
    """The names of parameters, with their defaults.

    >>> signature_text(inspect.signature(did_you_mean))
    '(name, known, most=3)'
    """
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(plain))


def bound(name: str, signature: inspect.Signature, args: Iterable[object], given: MutableMapping[str, AnyValue]) -> inspect.BoundArguments:
    """The arguments by parameter. Raises TypeError with the parameters of the function, and the most similar for an unknown one."""
    try:
        return signature.bind(*args, **given)
    except TypeError as error:
        unknown = next((key for key in given if key not in signature.parameters), None)
        hint = "" if unknown is None else did_you_mean(unknown, signature.parameters, 1)
        reason = str(error) if unknown is None else f"got an unexpected keyword argument {unknown!r}"
        raise TypeError(f"relay.{name}{signature_text(signature)}: {reason}{hint}") from None


def explain_arguments(functions: MutableMapping[str, AnyValue], names: Iterable[str], prefix: str = "") -> None:
    """Lets functions of a module, given by name, explain arguments that do not fit, as those of derived operators do."""
    for name in names:
        if inspect.isfunction(functions[name]):
            functions[name] = _explaining(functions[name], prefix + name)


def _explaining(function: Callable[..., AnyValue], name: str) -> Callable[..., AnyValue]:
    @functools.wraps(function)
    def call(*args: AnyValue, **given: AnyValue) -> AnyValue:
        try:
            return function(*args, **given)
        except TypeError:
            bound(name, inspect.signature(function), args, given)
            raise

    return call
