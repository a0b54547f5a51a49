"""Dynamic operators whose shape-like operand is known become static ones. Operators: dyn.*."""

from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.ops.static_forms import static_form
from passat.rules.conditions import Refuse, Term, computed
from passat.rules.pattern import OpNames, attributes, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

(a,) = attributes("a")
_OPERANDS = {"reshape": 2, "broadcast_to": 2, "full": 2, "strided_slice": 5, "tile": 2, "pad": 3, "one_hot": 4, "topk": 2}


@computed
def static_attrs(name: str, operands: tuple[Term, ...], attrs: Attrs) -> AnyValue:
    """The attributes of the static operator that does the same. Refuses where too little is known of the operands."""
    form = static_form(name, [x.type_ for x in operands], [x.known_value for x in operands], attrs, [x.constant for x in operands])
    if form is None:
        raise Refuse(f"too little is known of the operands of {name}: {', '.join(f'{x.known}' for x in operands[1:])}")
    return form.attrs


def _rules() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name, arity in _OPERANDS.items():
        dynamic = OpNames(f"dyn.{name}")
        holes = tensors(" ".join(f"x{i}" for i in range(arity)))
        kept = holes[:3:2] + holes[3:4] if name == "one_hot" else holes[:1]
        static = OpNames("nn.pad" if name == "pad" else name)
        attrs = Attrs() if name in ("broadcast_to", "strided_slice", "tile") else a
        left = dynamic(*holes) if isinstance(attrs, Attrs) else dynamic(*holes, attrs=a)
        rules[name] = left >> static(*kept, attrs=static_attrs(f"dyn.{name}", holes, attrs))
    doc = "Operators that take a shape, bounds or repeats as a tensor take them as attributes, once shape arithmetic knows them."
    return RuleSetMeta("DynamicToStatic", (RuleSet,), {"__doc__": doc, **rules})


DynamicToStatic = _rules()
