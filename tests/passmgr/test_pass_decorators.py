"""module_pass and function_pass on functions and on classes."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, ModulePass, PassContext, function_pass, module_pass


def body(mod: IRModule, ctx: PassContext) -> IRModule:
    """Returns its input."""
    return mod


def function_body(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return func


def test_on_functions() -> None:
    decorated = module_pass(opt_level=1, required=["A"], provides=("types",), preserves=("anf",))(body)
    direct = module_pass(body, 2, "Other", ("A", "B"), True)
    assert isinstance(decorated, ModulePass)
    assert (decorated.info.name, decorated.info.opt_level, decorated.info.required) == ("body", 1, ("A",))
    assert (set(decorated.info.provides), set(decorated.info.preserves)) == ({"types"}, {"anf"})
    assert (direct.info.name, direct.info.opt_level, direct.info.required, direct.info.traceable) == ("Other", 2, ("A", "B"), True)
    assert decorated.__doc__ == "Returns its input."
    assert isinstance(function_pass(function_body, opt_level=1), FunctionPass)


def test_one_decorator_may_make_several_passes() -> None:
    decorate = module_pass(opt_level=1)
    assert [decorate(body).info.name, decorate(lambda mod, ctx: mod).info.name] == ["body", "<lambda>"]


def test_a_callable_object_is_named_for_its_class(mod: IRModule) -> None:
    class Callable_:  # noqa: N801  # tests the name
        def __call__(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    made = module_pass(Callable_(), opt_level=0)
    assert made.info.name == "Callable_"
    assert made(mod) is mod


@pytest.mark.parametrize(("decorator", "kind"), [(module_pass, "module"), (function_pass, "function")])
def test_bad_arguments(decorator: Callable[..., Any], kind: str) -> None:
    with pytest.raises(ValueError, match=f"^Please provide opt_level for the {kind} pass.$"):
        decorator(body)
    with pytest.raises(ValueError, match="Please provide opt_level"):
        decorator()
    with pytest.raises(TypeError, match=rf"^{kind}_pass\(\) got an unexpected keyword argument 'optlevel'; did you mean opt_level\?$"):
        decorator(optlevel=1)
    with pytest.raises(TypeError, match=r"^Required is expected to be the type of list/tuple.$"):
        decorator(opt_level=1, required="InferType")
    with pytest.raises(TypeError, match=f"^pass_func must be a callable for {kind.capitalize()} pass$"):
        decorator(3, opt_level=1)


def test_on_a_class(mod: IRModule) -> None:
    @module_pass(opt_level=1, name="Replace")
    class Decorated:
        """Replaces any module by its own."""

        def __init__(self, new_mod: IRModule, label: str = "none") -> None:
            """Keeps the module."""
            self.new_mod = new_mod
            self.label = label

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return self.new_mod

        def tell(self) -> str:
            return f"replaces by {len(self.new_mod)}"

    kind: Any = Decorated  # for type checkers a decorated class is the original class
    new = IRModule()
    made: Any = kind(new, label="x")
    assert ModulePass in kind.__mro__
    assert made(mod) is new
    assert (made.label, made.tell()) == ("x", "replaces by 0")
    assert (kind.__name__, kind.__doc__, kind.__module__) == ("Decorated", "Replaces any module by its own.", __name__)
    assert kind.__init__.__doc__ == "Keeps the module."
    assert list(inspect.signature(kind).parameters) == ["new_mod", "label"]
    assert repr(made) == "Run Module pass: Replace at the optimization level 1"
    with pytest.raises(AttributeError, match="'Decorated' object has no attribute 'nothing'"):
        made.nothing


def test_on_a_class_of_function_passes(mod: IRModule) -> None:
    @function_pass(opt_level=2)
    class Mark:
        def __init__(self, attr: str) -> None:
            self.attr = attr

        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            return func.with_attr(self.attr, 1)

    made: Any = Mark("Inline")
    assert FunctionPass in type(made).__mro__
    assert (made.info.name, made.info.opt_level) == ("Mark", 2)
    assert made(mod)["main"].attrs["Inline"] == 1


def test_on_a_dataclass_and_on_a_class_without_init(mod: IRModule) -> None:
    @module_pass(opt_level=1)
    @dataclass
    class Options:
        rounds: int = 8

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return IRModule(attrs={"rounds": self.rounds})

    @module_pass(opt_level=1)
    class Plain:
        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    options: Any = Options(3)
    plain: Any = Plain()
    assert options(mod).attrs == {"rounds": 3}
    assert list(inspect.signature(Options).parameters) == ["rounds"]
    assert plain(mod) is mod


def test_a_class_needs_its_method() -> None:
    with pytest.raises(TypeError, match=r"^the class Empty must define transform_module to be a pass$"):

        @module_pass(opt_level=1)  # type: ignore[arg-type]  # the mistake
        class Empty:
            pass


def test_copies_of_passes_of_classes_work(mod: IRModule) -> None:
    @module_pass(opt_level=1)
    class Plain:
        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    copied: Any = copy.copy(Plain())
    assert copied(mod) is mod
