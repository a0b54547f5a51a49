"""One saturation, replayed by the checker: each step an equation, proved before it is made."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.ir.evaluate import EvaluateError, Value
from passat.ir.expr import Call, Constant, Expr, If, Tuple, TupleGetItem
from passat.ir.folding import folded_value
from passat.ir.infer import InferError, infer_type, known_value
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import KnownValue, Op, OpTypeError, get_op
from passat.ir.ops.static_forms import static_form
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type, compatible, refine
from passat.rules.conditions import Refuse
from passat.rules.multi_root import MultiRule
from passat.rules.provenance.closure import Closure, Node
from passat.rules.provenance.instance import Instance, build_call, parts_of_group, same_type
from passat.rules.provenance.plain import CertificateError, attrs_of, digest_key, plain_tensor, tensor_of
from passat.rules.provenance.terms import APPLY, CALL, CONST, FIELD, FUNCTION, IF, TUPLE, operands_of

if TYPE_CHECKING:
    from passat.rules.provenance.checker import Checker


_WITHOUT_RULES: Final = {
    "fold": "a constant is folded",
    "static": "an operator is made static",
    "sizes": "sizes are read off elsewhere",
}
"""What steps are that are no applications of rules."""


def expression(row: Sequence[AnyValue], parts: Sequence[Expr], constants: Mapping[str, Tensor]) -> Expr:
    """The expression of a term of these parts. Raises CertificateError."""
    kind = row[0]
    if kind == CALL:
        return Call(_op(row[1]), parts, attrs_of(row[2]))
    if kind == CONST:
        return Constant(tensor_of(row[1], constants))
    if kind == TUPLE:
        return Tuple(parts)
    if kind == FIELD:
        return TupleGetItem(parts[0], row[1])
    return If(parts[0], parts[1], parts[2]) if kind == IF else Call(parts[0], parts[1:])


def _op(name: str) -> Op:
    try:
        return get_op(name)
    except KeyError as error:
        raise CertificateError(str(error.args[0])) from None


def _commutes(label: AnyValue) -> bool:
    """Whether the operands of nodes with this label may be swapped."""
    return label[0] == "call" and bool(label[1].commutative)


class Saturated:
    """The classes of one saturation. It answers what rules ask of them (`passat.rules.provenance.instance.Facts`)."""

    def __init__(self, checker: "Checker", part: Mapping[str, AnyValue], where: str) -> None:
        self.checker = checker
        self.part = part
        self.where = where
        self.closure = Closure(_commutes)
        self.find = self.closure.find
        self._classes: dict[int, int] = {}
        self._growth: int | None = None

    def run(self) -> None:
        """Proves all steps, and that what came out is what went in. Raises CertificateError."""
        part, checker = self.part, self.checker
        for number, step in enumerate(part["steps"], 1):
            what = step["rule"] if "rule" in step else next(said for name, said in _WITHOUT_RULES.items() if name in step)
            if "rule" in step and self._growth is None:
                self._prove(f"{self.where}, step {number}", self._begin)
                self._growth = -1 if part.get("growth") is None else part["growth"]
            self._prove(f"{self.where}, step {number} ({what})", lambda step=step: self._step(step))
        self._prove(f"{self.where}, the end", self._end)
        for term, cls in self._classes.items():
            checker.types[term] = self.type(cls)

    def _prove(self, where: str, claim: AnyValue) -> None:
        try:
            claim()
        except (Refuse, InferError, OpTypeError, EvaluateError, CertificateError) as error:
            raise CertificateError(f"{where}: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise CertificateError(f"{where}: it cannot be replayed: {type(error).__name__}: {error}") from None

    def _begin(self) -> None:
        """The program that went in; where two programs are compared, both."""
        self.term(self.part["before"])
        if self.part.get("together"):
            self.term(self.part["after"])

    def _end(self) -> None:
        if self.find(self.term(self.part["before"])) != self.find(self.term(self.part["after"])):
            raise CertificateError("what was taken out does not follow from what went in")

    # ---- steps

    def _step(self, step: Mapping[str, AnyValue]) -> None:
        if "fold" in step:
            self._fold(step["fold"], step["to"])
        elif "static" in step:
            self._static(step["static"], step["to"])
        elif "sizes" in step:
            self._sizes(step["sizes"], step["to"])
        else:
            self._apply(step)
        self._propagate()

    def _apply(self, step: Mapping[str, AnyValue]) -> None:
        if step["rule"] not in self.checker.data["rules"]:
            raise CertificateError("the certificate does not say what rule that is")
        rule = self.checker.rules[step["rule"]]
        matches = [Instance(self, rule, match, self.term) for match in step["matches"]]
        if len(step["unions"]) != len(matches) or (len(matches) != 1 and not isinstance(rule, MultiRule)) or not matches:
            raise CertificateError(f"there are {len(step['unions'])} unions for {len(matches)} matches")
        made = parts_of_group(rule, matches) if isinstance(rule, MultiRule) else [matches[0].right()]
        for match, right, (left, said) in zip(matches, made, step["unions"], strict=True):
            if self.find(self.term(left)) != self.find(match.root):
                raise CertificateError("the union is not made where the left side is")
            if not same_type(self.type(match.root), self.type(right)):
                raise CertificateError(f"the right side has type {self.type(right)!r}, the left side {self.type(match.root)!r}")
            if self.find(self.term(said)) != self.find(right):
                raise CertificateError("the right side is not what the step says")
        for match, right in zip(matches, made, strict=True):
            self.closure.unite(match.root, right)
            self.checker.verdict.unions += 1

    def _fold(self, term: int, to: int) -> None:
        cls, row = self.term(term), self.checker.rows[to]
        if row[0] != CONST:
            raise CertificateError("what is folded does not become a constant")
        value = self.constant(cls)
        if value is None:
            value = self._evaluated(self.closure.nodes(cls)[0], self.closure.exprs[cls])
        if value is None:
            value = self._followed(self.closure.exprs[cls])
        if not isinstance(value, Tensor):
            raise CertificateError("it is not made of constants alone")
        if plain_tensor(value) != row[1]:
            raise CertificateError(f"it computes another constant, {value!r}")
        target = self.scalar(value)
        self.closure.unite(cls, target, keep=target)
        self.checker.verdict.folds += 1

    def _followed(self, expr: Expr) -> Tensor | None:
        """The constant that shape arithmetic knows in full."""
        type_, known = expr.checked_type, known_value(expr)
        if known is None or isinstance(known, tuple) or not isinstance(type_, TensorType) or not type_.is_static:
            return None
        elements = known.reshape(-1).tolist()
        if any(type(element) not in (int, bool) for element in elements):
            return None
        return Tensor.dense(np.asarray(elements, bool if type_.dtype == "bool" else np.int64).reshape(known.shape), type_.dtype)

    def _static(self, term: int, to: int) -> None:
        cls = self.term(term)
        (label, operands), *_ = self.closure.nodes(cls)
        assert isinstance(label, tuple)
        constants = [value if isinstance(value := self.constant(each), Tensor) else None for each in operands]
        form = static_form(
            label[1].name, [self.type(each) for each in operands], [self.known(each) for each in operands], label[2], constants
        )
        if form is None:
            raise CertificateError(f"too little is known to make {label[1].name} static")
        made = build_call(self, form.op, [operands[place] for place in form.operands], form.attrs)
        target = self.term(to)
        if self.find(made) != self.find(target):
            raise CertificateError("the static form is not what the step says")
        self.closure.unite(cls, target, keep=target)

    def _sizes(self, term: int, to: int) -> None:
        """Two tensors of sizes, all of which are known: as numbers, or by their names in the shapes of the inputs."""
        one, other = self.term(term), self.term(to)
        values = self.known(one), self.known(other)
        if not same_type(self.type(one), self.type(other)):
            raise CertificateError(f"they have the types {self.type(one)!r} and {self.type(other)!r}")
        first, second = (value.reshape(-1).tolist() if isinstance(value, np.ndarray) else None for value in values)
        if first is None or ANY in first or first != second:
            raise CertificateError(f"these sizes are not known to be equal: {first!r} and {second!r}")
        self.closure.unite(one, other)

    # ---- terms

    def term(self, term: int) -> int:
        """The class of a term."""
        rows, classes = self.checker.rows, self._classes
        stack = [term]
        while stack:
            top = stack[-1]
            parts = self._parts(rows[top])
            missing = [part for part in parts if part not in classes]
            if top in classes or not missing:
                stack.pop()
                if top not in classes:
                    classes[top] = self._load(top, rows[top], [classes[part] for part in parts])
            else:
                stack += reversed(missing)
        return classes[term]

    @staticmethod
    def _parts(row: Sequence[AnyValue]) -> Sequence[int]:
        """The parts of a term that belong to the same body."""
        return [] if row[0] == FUNCTION else operands_of(row)[:1] if row[0] == IF else operands_of(row)

    def _load(self, term: int, row: Sequence[AnyValue], operands: Sequence[int]) -> int:
        kind, checker = row[0], self.checker
        better = checker.types.get(term)
        if kind == CALL:
            return self._node(("call", _op(row[1]), attrs_of(row[2]), row[4] if len(row) > 4 else None), operands, better)
        if kind == TUPLE:
            return self._node(("tuple",), operands, better)
        if kind == FIELD:
            return self._node(("field", row[1]), operands, better)
        if kind == CONST:
            return self.scalar(tensor_of(row[1], checker.constants))
        if kind in (IF, APPLY):
            rest = operands_of(row)[len(operands) :]
            parts = [*(self.closure.exprs[self.find(each)] for each in operands), *map(checker.plain, rest)]
            label: AnyValue = (kind, *map(checker.same, rest))
            found = self.closure.lookup(label, operands)
            return self.closure.add(label, operands, infer_type(expression(row, parts, {}))) if found is None else found
        label = checker.same(term) if kind == FUNCTION else ("leaf", term)
        found = self.closure.lookup(label, ())
        return self.closure.add(label, (), checker.plain(term)) if found is None else found

    def lookup(self, what: tuple[AnyValue, ...], operands: Sequence[int]) -> int | None:
        """The class of a node, where it is there."""
        return self.closure.lookup(what, operands)

    def build(self, what: tuple[AnyValue, ...], operands: Sequence[int]) -> int:
        """The class of a node, which is made and, where it is constant, folded."""
        if what[0] == "call" and what[1].stateful:
            raise CertificateError("a rule that makes a stateful call cannot be replayed")
        cls = self._node(what, operands, None)
        if self.closure.constants.get(self.find(cls)) is None:
            self._try_folding(cls)
        return self.find(cls)

    def _node(self, what: tuple[AnyValue, ...], operands: Sequence[int], better: Type | None) -> int:
        found = self.closure.lookup(what, operands)
        if found is not None:
            return found
        parts = [self.closure.exprs[self.find(each)] for each in operands]
        expr = infer_type(
            Tuple(parts) if what[0] == "tuple" else TupleGetItem(parts[0], what[1]) if what[0] == "field" else Call(what[1], parts, what[2])
        )
        if better is not None and compatible(expr.checked_type, better):
            expr._checked_type = refine(expr.checked_type, better)
        cls = self.closure.add(what, operands, expr)
        if what[0] == "field":  # the field of a tuple that is made here is that field
            for other, fields in self.closure.nodes(operands[0]):
                if other == ("tuple",):
                    self.closure.unite(cls, fields[what[1]])
                    break
        return cls

    def scalar(self, tensor: Tensor) -> int:
        """The class of a constant."""
        label = ("const", tensor.content_key())
        found = self.closure.lookup(label, ())
        if found is not None:
            return found
        data = plain_tensor(tensor)
        if "sha256" in data:  # what has been computed can be named
            self.checker.constants.setdefault(digest_key(data), tensor)
        return self.closure.add(label, (), Constant(tensor), tensor)

    # ---- facts

    def type(self, cls: int) -> Type:
        """The type of a class."""
        return self.closure.exprs[self.find(cls)].checked_type

    def known(self, cls: int) -> KnownValue | None:
        """What is known of the elements of a class."""
        value = self.constant(cls)
        return known_value(Constant(value) if isinstance(value, Tensor) else self.closure.exprs[self.find(cls)])

    def constant(self, cls: int) -> Value | None:
        """The value of a class that is constant."""
        cls = self.find(cls)
        found = self.closure.constants.get(cls)
        if found is None and isinstance(self.type(cls), TupleType):
            found = next(
                (value for node in self.closure.nodes(cls) if (value := self._evaluated(node, self.closure.exprs[cls])) is not None), None
            )
            if found is not None:
                self.closure.constants[cls] = found
        return found

    def _evaluated(self, node: Node, expr: Expr) -> Value | None:
        """The value of a node whose operands are constants."""
        label, operands = node
        if not operands or not isinstance(label, tuple) or label[0] not in ("call", "tuple", "field"):
            return None
        values: list[Value] = []
        for each in operands:
            value = self.constant(each)
            if value is None:
                return None
            values.append(value)
        if label[0] == "tuple":
            return tuple(values)
        if label[0] == "field":
            return values[0][label[1]] if isinstance(values[0], tuple) else None
        op: Op = label[1]
        return (
            None
            if op.stateful or op.kernel is None
            else folded_value(op, values, label[2], expr.checked_type, self.part.get("opset") or DEFAULT_OPSET)
        )

    def _propagate(self) -> None:
        """Folds what is made of classes that have become constant."""
        learnt = self.closure.learnt
        while learnt:
            for user in list(self.closure.users(learnt.pop())):
                if user not in self.closure.constants and self._try_folding(user):
                    learnt.append(self.find(user))

    def _try_folding(self, cls: int) -> bool:
        """Folds a class where that may be. `growth` is what the engine allowed itself; it only spares work here."""
        if self._growth is None or self._growth < 0:
            return False
        cls = self.find(cls)
        expr = self.closure.exprs[cls]
        for node in list(self.closure.nodes(cls)):
            if not node[1] or not self._is_cheap(node, expr.checked_type):
                continue
            try:
                value = self._evaluated(node, expr)
            except EvaluateError:
                continue
            if value is not None:
                self.closure.constants[cls] = value
                if isinstance(value, Tensor):
                    self.closure.unite(cls, self.scalar(value))
                return True
        return False

    def _is_cheap(self, node: Node, type_: Type) -> bool:
        values = [self.closure.constants.get(self.find(each)) for each in node[1]]
        if any(value is None for value in values):
            return False
        tensors = [value for value in values if isinstance(value, Tensor)]
        if len(tensors) == len(values) and any(tensor.is_splat for tensor in tensors) and all(t.uniform() is not None for t in tensors):
            return True
        size = type_.nbytes if isinstance(type_, TensorType) and type_.is_static else 0
        return size <= (self._growth or 0) + sum(0 if tensor.is_splat else tensor.nbytes for tensor in tensors)
