"""Detects which Relay constructs a program uses, with Relay's numbering."""

from enum import IntEnum

from passat.ir.analysis import free_vars
from passat.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import children, post_order

Feature = IntEnum(
    "Feature",
    "fVar fGlobalVar fConstant fTuple fTupleGetItem fFunction fOp fCall fLet fIf fRefCreate fRefRead fRefWrite fConstructor fMatch "
    "fGraph fLetRec",
    start=0,
)
Feature.__doc__ = """A language construct. `fGraph` is a value that is used in several places without a let binding."""

_KINDS: dict[type, Feature] = {
    Var: Feature.fVar,
    GlobalVar: Feature.fGlobalVar,
    Constant: Feature.fConstant,
    Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem,
    Function: Feature.fFunction,
    Op: Feature.fOp,
    Call: Feature.fCall,
    Let: Feature.fLet,
    If: Feature.fIf,
    RefCreate: Feature.fRefCreate,
    RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor,
    Match: Feature.fMatch,
}
_ATOMS = (Var, GlobalVar, Op, Constructor)


def detect_feature(a: Expr | IRModule, b: Expr | IRModule | None = None) -> set[Feature]:
    """Returns the constructs in an expression or in the functions of a module, and in those of `b` if given.

    >>> from passat.ir.expr import const
    >>> sorted(feature.name for feature in detect_feature(const(1)))
    ['fConstant']
    """
    roots: list[Expr] = []
    for given in (a, b):
        if given is not None:
            roots += [given] if isinstance(given, Expr) else given.functions.values()
    return {feature for root in roots for feature in _features(root)}


def _features(root: Expr) -> set[Feature]:
    found: set[Feature] = set()
    used: set[Expr] = set()
    for node in post_order(root):
        found.update(feature for kind, feature in _KINDS.items() if isinstance(node, kind))
        if isinstance(node, Let) and isinstance(node.value, Function) and node.var in free_vars(node.value):
            found.add(Feature.fLetRec)
        for part in children(node):
            if part in used and not isinstance(part, _ATOMS):
                found.add(Feature.fGraph)
            used.add(part)
    return found
