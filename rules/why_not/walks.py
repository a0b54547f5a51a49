"""Answers about passes without rules: whether they ran, what they changed, and why HoistSelections left a selection, or the strides of a
convolution, where they are."""

from collections.abc import Collection, Sequence
from typing import Final

from passat.ir.aligned_axes import aligned_places
from passat.ir.analysis import is_call_of
from passat.ir.expr import Call, Expr, Function, If, Let, Match, Tuple
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import children
from passat.rules.passes.hoist_selections import HoistSelections, selects_each
from passat.rules.passes.hoist_strides import ALL, has_image, is_convolution, is_pointwise, strides_of, takes_steps
from passat.rules.passes.selected_regions import Region, completed, merged
from passat.rules.passes.selections import SELECTING, selection
from passat.rules.passes.simplify_shapes import own_nodes
from passat.rules.provenance.node_traces import NodeTraces, name_of, names_of
from passat.rules.provenance.pass_trace import PassEvent, expressions
from passat.rules.rule import EXACT
from passat.rules.why_not.answer import Finding, Kind, bare, ordinal
from passat.rules.why_not.watch import Ran, Watched

_NO_SELECTION: Final = (
    "it selects neither a known number of positions along one axis, at most half of them, nor one position of each entry of a batch"
)

_RESULTS: Final = "the result of the program"


def about_walk(name: str, watched: Watched, node: str | None = None) -> list[Finding]:
    """What a pass without rules did in a run of a pipeline, to the whole program or to one node."""
    runs = [ran for ran in watched.ran if ran.name == name and not ran.runs]
    if not runs:
        steps = [step for step in watched.plan.walk() if step.name == name]
        whys = list(dict.fromkeys(step.why for step in steps if not step.runs))
        vetoed = any(step.runs for step in steps)
        why = "an instrument vetoed it" if vetoed else listed(whys) or "the pipeline does not have it"
        return [Finding(Kind.NOT_RUN, f"{name} does not run: {why}")]
    changed: list[Finding] = []
    left: list[Finding] = []
    for number, ran in enumerate(runs):
        after = watched.ran[ran.number + 1].before if ran.number + 1 < len(watched.ran) else watched.after
        which = f" (in its {ordinal(number)} run)" if len(runs) > 1 else ""
        changed += _changes(ran, after, which, node)
        left.append(_left(ran, node, watched))
    return changed or list(dict.fromkeys(left))


def _changes(ran: Ran, after: IRModule, which: str, node: str | None) -> list[Finding]:
    """What a run of a pass changed, and at which nodes."""
    if ran.before is after:
        return []
    traces = NodeTraces([], [PassEvent(ran.name, ran.before, after, 0, 0, (ran.name,))])
    places: dict[str, dict[str, None]] = {}
    for call in _calls(after):
        for event in traces.of(call).events if traces.changed(call) else ():
            if event.at and (node is None or node in names_of(call)):
                places.setdefault(event.rule, {}).update(dict.fromkeys(f"'{at}'" for at in event.at))
    left = {name for call in _calls(after) for name in names_of(call)}
    gone = {f"'{name_of(call)}'": None for call in _calls(ran.before) if name_of(call) and left.isdisjoint(names_of(call))}
    removed = [place for place in gone if node is None or place == f"'{node}'"]
    found = [Finding(Kind.TAKEN, f"{rule} at {listed(list(at))}{which}", bare(at), (ran.name,), len(at)) for rule, at in places.items()]
    if removed:
        found.append(Finding(Kind.TAKEN, f"it removed {listed(removed)}{which}", bare(removed), (ran.name,), len(removed)))
    return found


def _left(ran: Ran, node: str | None, watched: Watched) -> Finding:
    """That a run changed nothing, or not the node; of HoistSelections, why."""
    if node is None:
        return Finding(Kind.NOTHING, "it changed nothing", (), (ran.name,))
    if ran.name != HoistSelections.info.name:
        return Finding(Kind.NOTHING, f"it did not change '{node}'", (node,), (ran.name,))
    if watched.settings.get_config("rules.math") == EXACT:
        return Finding(Kind.REJECTED, "products of fewer rows may round differently, which rules.math=exact excludes", (node,), (ran.name,))
    for function in _functions(ran.before):
        order = own_nodes(function.body)
        call = next((each for each in order if node in names_of(each)), None)
        if call is not None:
            why = _why_left(order, function.body, call, of_each=selects_each(ran.before))
            return Finding(Kind.REJECTED, why, (node,), (ran.name,))
    return Finding(Kind.NOTHING, f"'{node}' no longer exists when it runs", (node,), (ran.name,))


def _why_left(order: Sequence[Expr], root: Expr, call: Expr, *, of_each: bool) -> str:
    """Why HoistSelections left a call of a function as it is."""
    if any(isinstance(node, (Let, If, Match)) for node in order):
        return "the function has branches or lets, whose functions stay as they are"
    regions = merged([found for node in order if (found := selection(node, of_each)) is not None])
    moved = completed(order, root, regions)
    for region in regions:
        is_own = call is region.selection.call or any(call is other for other in region.again)
        if not is_own and id(call) not in region.asked:
            continue
        if not is_own and id(call) not in region.places:
            return _border(order, root, region, call)
        if region in moved:
            return "the program would not be cheaper if the selection moved"
        borders = [node for node in order if id(node) in region.asked and id(node) not in region.places and isinstance(node, Call)]
        at = f": {_border(order, root, region, borders[-1])}" if borders else ""
        return f"there is no product that would be computed for fewer positions{at}"
    for region in regions:
        if (border := _beyond(order, region, call)) is not None:
            return f"{_said(border)}, which depends on it, is computed as a whole: {_border(order, root, region, border)}"
    if is_call_of(call, *SELECTING):
        whole = selection(call, of_each) is not None
        return "the selections from its operand select most of the positions together" if whole else _NO_SELECTION
    if isinstance(call, Call) and is_convolution(call) and strides_of(call) != ALL:
        return _why_strides_stay(order, root, call)
    return "no selection reads it, directly or through calls that are computed position by position"


def _why_strides_stay(order: Sequence[Expr], root: Expr, call: Call) -> str:
    """Why the strides of a convolution did not move to the convolutions before it."""
    if not is_pointwise(call):
        return "its strides stay, since strides move from 1x1 convolutions without padding only: others read all positions"
    node = call.args[0]
    alike = [each for each in order if isinstance(each, Call) and is_pointwise(each) and strides_of(each) == strides_of(call)]
    known = {id(each) for each in alike if each.args[0] is node}
    while True:
        if readers := _readers(order, root, node, known):
            return f"its strides stay, since other positions of {_said(node)} are read by {listed(list(dict.fromkeys(readers)))}"
        if not takes_steps(node):
            to = "convolutions with the channels first, biases and elementwise calls, of float32 images of known sizes"
            return f"its strides stay, since {_said(node)} is computed as a whole: strides move to {to}"
        if is_convolution(node):
            return "the program would not be cheaper if its strides moved"
        known.add(id(node))
        node = next(part for part in children(node) if has_image(part, node))


def _beyond(order: Sequence[Expr], region: Region, call: Expr) -> Expr | None:
    """The node at the border of a region that is computed as a whole, but would read a call position by position; None if there is none."""
    for border in order:
        if id(border) not in region.asked or id(border) in region.places:
            continue
        heap = [(border, region.asked[id(border)])]
        seen: set[int] = set()
        while heap:
            node, place = heap.pop()
            if node is call:
                return border
            aligned = aligned_places(node, place) if id(node) not in seen and isinstance(node, (Call, Tuple)) else None
            seen.add(id(node))
            parts = node.args if isinstance(node, Call) else children(node)
            heap += [(part, at) for part, at in zip(parts, aligned or (), strict=False) if at is not None and not at.shared]
    return None


def _border(order: Sequence[Expr], root: Expr, region: Region, node: Expr) -> str:
    """Why a node that a selection reads, directly or through others, is computed as a whole."""
    known = {*region.places, *region.unread, id(region.selection.call), id(region.selection.view), *map(id, region.again)}
    if readers := _readers(order, root, node, known):
        return f"other positions of {_said(node)} are read by {listed(list(dict.fromkeys(readers)))}"
    return f"a position of {_said(node)} depends on several positions of its operands, or is selected by another selection"


def _readers(order: Sequence[Expr], root: Expr, node: Expr, known: Collection[int]) -> list[str]:
    """What reads a node, directly or in a tuple, apart from the known nodes."""
    if node is root:
        return [_RESULTS]
    found: list[str] = []
    for reader in order:
        if id(reader) not in known and any(part is node for part in children(reader)):
            found += _readers(order, root, reader, known) if isinstance(reader, Tuple) else [_said(reader)]
    return found


def _said(node: Expr) -> str:
    """A node in a sentence: its operator and its name."""
    kind = node.op.name if isinstance(node, Call) and isinstance(node.op, Op) else type(node).__name__.lower()
    return f"{kind} '{name_of(node)}'" if name_of(node) else f"a {kind}"


def _functions(module: IRModule) -> list[Function]:
    """The functions of a module, inner ones first."""
    return [node for node in expressions(module) if isinstance(node, Function)]


def _calls(module: IRModule) -> list[Call]:
    return [node for node in expressions(module) if isinstance(node, Call)]
