"""Aligns two graphs: finds corresponding nodes and the differences between the graphs.

Nodes correspond by these criteria, most reliable first:

* they compute the same from the same inputs;
* they apply the same operator to the same constants, and no other node does;
* they are reached from corresponding nodes, backward from results or forward from operands;
* they have the same name.

Connected nodes without a counterpart form a difference.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, NamedTuple

from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.plain_nodes import constant_text, plain
from passat.ir.onnx.same_graph import COMMUTATIVE, Numbering, constant_of, content_of, sparse_content
from passat.ir.onnx.scope import free_names, sort_nodes, subgraphs

_ROUNDS: Final = 100
"""Maximum number of propagation rounds. Each traverses both graphs, and few are needed in practice."""


class Pair(NamedTuple):
    """Corresponding nodes: their indices in the two graphs, and whether they compute the same from the same inputs."""

    before: int
    after: int
    same: bool


class Place(NamedTuple):
    """A difference: connected nodes of the first graph and the nodes of the second graph that replace them. Either may be empty."""

    before: tuple[int, ...]
    after: tuple[int, ...]


class Whole(NamedTuple):
    """The properties that graphs share with their model: the folder of external data, and the versions of domains."""

    folder: str | None
    opsets: Mapping[str, int]


class Side:
    """One of two graphs, with its value numbers (`Numbering`). Constant nodes count as constants; attributes equal to the default are
    ignored."""

    def __init__(self, graph: GraphProto, numbering: Numbering, whole: "Whole", outer: Mapping[str, int]) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.values = dict(outer)
        self.constants: dict[str, object] = {}
        self._numbering = numbering
        for tensor in graph.initializer:
            self.constants[tensor.name] = content_of(tensor, whole.folder)
        for sparse in graph.sparse_initializer:
            self.constants[sparse.values.name] = sparse_content(sparse)
        for node in sort_nodes(graph.node):
            held = constant_of(node, whole.folder)
            if held is None:
                self.nodes.append(plain(node, whole.opsets, self.constants))
            else:
                self.constants[node.output[0]] = held
        self.own_inputs = {value.name for value in graph.input}
        self.values.update((name, numbering.number(("constant", key))) for name, key in self.constants.items())
        self.makers = {name: (i, place) for i, node in enumerate(self.nodes) for place, name in enumerate(node.output) if name}
        read = {name for node in self.nodes for name in node.input if name}
        for name in sorted(read - (self.own_inputs | self.values.keys() | self.makers.keys())):  # in a model that fails the checker
            self.values[name] = numbering.number(("undefined value", name))
        self.forms = [numbering.describe(node, self.captured(node)) for node in self.nodes]
        self.numbers: list[int] = []

    def inputs(self) -> list[ValueInfoProto]:
        """The inputs without an initializer."""
        return [value for value in self.graph.input if value.name not in self.constants]

    def show(self, name: str) -> str:
        """Describes a value: a constant, the result of a node, or an input."""
        if not name:
            return "none"
        if name in self.constants:
            return constant_text(self.constants[name])
        if name not in self.makers:
            return repr(name)
        node, place = self.makers[name]
        return f"{f'output {place} of ' if place else ''}{self.nodes[node].op_type} {called(self.nodes[node])!r}"

    def captured(self, node: NodeProto) -> list[str]:
        """The outer values that the subgraphs of a node read."""
        return [name for graph in subgraphs(node) for name in free_names(graph)]

    def reads(self, node: NodeProto) -> list[str]:
        """All values that a node reads: its operands and the captured values of its subgraphs."""
        return [*node.input, *self.captured(node)]

    def renumber(self, tokens: Mapping[int, int]) -> None:
        """Recomputes the numbers of all values; nodes listed in `tokens` get these tokens as numbers."""
        number = self._numbering.number
        values = self.values
        self.numbers = []
        for i, node in enumerate(self.nodes):
            own = number(("corresponds", tokens[i])) if i in tokens else self._numbering.node(node, values)
            self.numbers.append(own)
            values.update((name, number((own, place))) for place, name in enumerate(node.output) if name)


class Alignment:
    """The correspondence of two graphs.

    * `pairs` are the corresponding nodes, in the order of the second graph.
    * `places` are the differences, in the order of the first graph.
    * `outer` is the correspondence of the enclosing graphs.

    Inputs and outputs correspond by name, or by position if only one graph has the name. With `by_place`, as for subgraphs, they
    correspond by position only. `sources` maps results of nodes of the second graph to the nodes of the first that they were made from;
    without counterparts, these nodes belong to one difference. Raises OnnxError for a cycle.
    """

    def __init__(
        self,
        graphs: tuple[GraphProto, GraphProto],
        wholes: tuple[Whole, Whole],
        numbering: Numbering,
        *,
        outer: "Alignment | None" = None,
        by_place: bool = False,
        sources: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        around: tuple[Mapping[str, int], Mapping[str, int]] = (outer.before.values, outer.after.values) if outer is not None else ({}, {})
        try:
            self.before: Side = Side(graphs[0], numbering, wholes[0], around[0])
            self.after: Side = Side(graphs[1], numbering, wholes[1], around[1])
        except ValueError as error:
            raise OnnxError(str(error)) from error
        self._to: dict[int, int] = {}
        self._from: dict[int, int] = {}
        self.wholes, self._outer, self._by_place, self._sources = wholes, outer, by_place, sources
        self._number_inputs(numbering)
        self.before.renumber({})
        self.after.renumber({})
        self._first = dict(self.before.values), dict(self.after.values)
        self._pair_equal()
        same = dict(self._from)
        self._spread(self._pair_outputs())
        for _ in range(_ROUNDS):
            found = self._pair_constants() or self._pair_forward() or self._pair_names()
            if not found:
                break
            self._spread(found)
        self.pairs = [Pair(self._from[i], i, same.get(i) == self._from[i]) for i in sorted(self._from)]
        self.places = list(self._places())

    def values_correspond(self, one: str, other: str) -> bool:
        """Whether a value of the first graph corresponds to a value of the second."""
        made, there = self.before.makers.get(one), self.after.makers.get(other)
        if made is None or there is None:
            return made is there and self.before.values.get(one) == self.after.values.get(other)
        return self._to.get(made[0]) == there[0] and made[1] == there[1]

    def outputs(self) -> list[tuple[str, str]]:
        """The outputs of the graphs, in pairs."""
        mine, theirs = ([value.name for value in side.graph.output] for side in (self.before, self.after))
        shared = set() if self._by_place else {*mine} & {*theirs}
        rest = ([name for name in names if name not in shared] for names in (mine, theirs))
        return [*((name, name) for name in mine if name in shared), *zip(*rest, strict=False)]

    def rewired(self, values: Sequence[tuple[str, str]]) -> list[tuple[int, str, str]]:
        """Returns the pairs of values that differ and are not explained by another listed difference, with their positions.

        These are constants, inputs, and results of nodes with counterparts.
        """
        found = []
        for place, (one, other) in enumerate(values):
            explained = self._is_open(0, one) or self._is_open(1, other)
            if (
                not explained
                and not self.values_correspond(one, other)
                and self._first[0].get(one, one) != self._first[1].get(other, other)
            ):
                found.append((place, one, other))
        return found

    def _is_open(self, number: int, name: str) -> bool:
        """Whether a value of a graph, or of an enclosing one, is the result of a node without a counterpart."""
        aligned: Alignment | None = self
        while aligned is not None:
            side = (aligned.before, aligned.after)[number]
            if name in side.makers:
                return side.makers[name][0] not in (aligned._to, aligned._from)[number]
            aligned = None if name in side.constants or name in side.own_inputs else aligned._outer
        return False

    def _number_inputs(self, numbering: Numbering) -> None:
        """Inputs of the same name correspond; others correspond by position if they have the same type."""
        mine, theirs = self.before.inputs(), self.after.inputs()
        if self._by_place:
            for one, other in zip_longest(mine, theirs):
                number_of_both = numbering.number(object())
                for side, value in ((self.before, one), (self.after, other)):
                    if value is not None:
                        side.values[value.name] = number_of_both
            return
        names = {value.name for value in mine} & {value.name for value in theirs}
        for side in (self.before, self.after):
            for value in side.inputs():
                side.values[value.name] = numbering.number(("input", value.name, None if value.name in names else id(side)))
        rest = ([each for each in values if each.name not in names] for values in (mine, theirs))
        for one, other in zip(*rest, strict=False):
            if one.type == other.type:
                self.after.values[other.name] = self.before.values[one.name]

    def _pair(self, one: int, other: int) -> None:
        self._to[one], self._from[other] = other, one

    def _open(self) -> tuple[list[int], list[int]]:
        """The nodes without a counterpart."""
        mine = [i for i in range(len(self.before.nodes)) if i not in self._to]
        return mine, [i for i in range(len(self.after.nodes)) if i not in self._from]

    def _pair_equal(self) -> list[tuple[int, int]]:
        """Pairs nodes of equal value numbers, those with equal names first."""
        mine, theirs = self._open()
        waiting: dict[int, list[int]] = defaultdict(list)
        for i in reversed(mine):
            waiting[self.before.numbers[i]].append(i)
        found = []
        for i in theirs:
            same = waiting.get(self.after.numbers[i])
            if same:
                names = set(self.after.nodes[i].output)
                named = next((each for each in same if names & set(self.before.nodes[each].output)), same[-1])
                same.remove(named)
                self._pair(named, i)
                found.append((named, i))
        return found

    def _pair_outputs(self) -> list[tuple[int, int]]:
        """Pairs the producers of outputs."""
        return self._pair_values(self.outputs())

    def _pair_values(self, values: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
        """Pairs the producers of values if they have the same operator and attributes and no counterpart yet."""
        found = []
        for one, other in values:
            made, there = self.before.makers.get(one), self.after.makers.get(other)
            if made is None or there is None or made[1] != there[1] or made[0] in self._to or there[0] in self._from:
                continue
            if self.before.forms[made[0]] == self.after.forms[there[0]]:
                self._pair(made[0], there[0])
                found.append((made[0], there[0]))
        return found

    def _spread(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Pairs the producers of the operands of pairs, transitively."""
        waiting = list(pairs)
        while waiting:
            one, other = waiting.pop()
            waiting += self._pair_values(self.operands(one, other))

    def operands(self, one: int, other: int) -> list[tuple[str, str]]:
        """The operands of corresponding nodes, in pairs. For commutative operators, corresponding operands are paired."""
        mine, theirs = self.before.reads(self.before.nodes[one]), self.after.reads(self.after.nodes[other])
        node = self.before.nodes[one]
        if len(mine) == len(theirs) == 2 and node.op_type in COMMUTATIVE and node.domain in ("", "ai.onnx"):
            crossed = sum(map(self.values_correspond, mine, reversed(theirs)))
            if crossed > sum(map(self.values_correspond, mine, theirs)):
                theirs = theirs[::-1]
        return list(zip(mine, theirs, strict=False))

    def _pair_constants(self) -> list[tuple[int, int]]:
        """Pairs nodes of one operator that are the only readers of the same multi-element constants."""
        keyed: list[dict[object, list[int]]] = []
        for side, nodes in zip((self.before, self.after), self._open(), strict=True):
            by_key: dict[object, list[int]] = defaultdict(list)
            for i in nodes:
                node = side.nodes[i]
                held = [side.values[name] if name in side.constants and _is_large(side.constants[name]) else None for name in node.input]
                if any(number is not None for number in held):
                    by_key[side.forms[i], tuple(held)].append(i)
            keyed.append(by_key)
        found = [(mine[0], keyed[1][key][0]) for key, mine in keyed[0].items() if len(mine) == len(keyed[1].get(key, ())) == 1]
        for one, other in found:
            self._pair(one, other)
        return found

    def _pair_forward(self) -> list[tuple[int, int]]:
        """Pairs nodes that apply the same operator to corresponding values."""
        for side, tokens in ((self.before, {i: i for i in self._to}), (self.after, self._from)):
            side.renumber(tokens)
        return self._pair_equal()

    def _pair_names(self) -> list[tuple[int, int]]:
        """Pairs nodes of one operator with equal names, or equal names of the first result."""
        return self._pair_called(lambda node: node.output[0] if node.output else "") or self._pair_called(lambda node: node.name)

    def _pair_called(self, name_of: Callable[[NodeProto], str]) -> list[tuple[int, int]]:
        mine, theirs = self._open()
        named = {name_of(self.before.nodes[i]): i for i in mine}
        named.pop("", None)
        found = []
        for i in theirs:
            one = named.get(name_of(self.after.nodes[i]))
            if one is not None and one not in self._to and _kind(self.before.nodes[one]) == _kind(self.after.nodes[i]):
                self._pair(one, i)
                found.append((one, i))
        return found

    def _places(self) -> Iterator[Place]:
        """Groups the nodes without a counterpart. A node joins the nodes that it was made from. Others form a group if they feed only each
        other, or produce the same operand of corresponding nodes."""
        leader: dict[tuple[int, int], tuple[int, int]] = {}

        def find(each: tuple[int, int]) -> tuple[int, int]:
            while leader[each] != each:
                leader[each] = leader[leader[each]]
                each = leader[each]
            return each

        sides = (self.before, self.after)
        for number, nodes in enumerate(self._open()):
            leader.update(((number, i), (number, i)) for i in nodes)
        readers: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for number, i in leader:
            for name in sides[number].reads(sides[number].nodes[i]):
                readers[number, sides[number].makers.get(name, (-1, 0))[0]].append((number, i))
        made = self._made_from()
        leader.update(((0, one), (1, other)) for one, other in made.items())
        known = {(0, one) for one in made} | {(1, other) for other in made.values()}
        leader.update((find((1, operand)), find((1, other))) for operand, other in self._made_together(set(made.values())))
        for values in [self.outputs(), *(self.operands(one, other) for one, other in self._to.items())]:
            for one, other in values:
                makers = ((0, self.before.makers.get(one, (-1, 0))[0]), (1, self.after.makers.get(other, (-1, 0))[0]))
                if makers[0] in leader and makers[1] in leader and known.isdisjoint(makers):
                    leader[find(makers[0])] = find(makers[1])
        for each in sorted(leader, reverse=True):  # users first
            # Nodes read by several differences form a difference of their own.
            if each not in known and len({find(reader) for reader in readers.get(each, ())}) == 1:
                leader[find(each)] = find(readers[each][0])
        groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for each in sorted(leader):
            groups.setdefault(find(each), ([], []))[each[0]].append(each[1])
        self._join_additions(groups)
        for mine, theirs in groups.values():
            yield Place(tuple(mine), tuple(theirs))

    def _join_additions(self, groups: dict[tuple[int, int], tuple[list[int], list[int]]]) -> None:
        """Joins a group without nodes of the first graph with the group that has most of the nodes it was made from: one rewrite made
        both."""
        holders = {called(self.before.nodes[i]): root for root, (mine, _) in groups.items() for i in mine}
        for root in [root for root, (mine, _) in groups.items() if not mine]:
            theirs = groups[root][1]
            held = Counter(holders[name] for i in theirs for name in self._sources_of(i) if name in holders)
            if held:
                groups[held.most_common(1)[0][0]][1].extend(theirs)
                del groups[root]
        for _, theirs in groups.values():
            theirs.sort()

    def _sources_of(self, other: int) -> Sequence[str]:
        """The names of the nodes of the first graph that a node of the second was made from."""
        return self._sources.get(next(iter(self.after.nodes[other].output), ""), ())

    def _made_together(self, nodes: set[int]) -> Iterator[tuple[int, int]]:
        """Of some nodes of the second graph, those with an operand that was made from a part of the same nodes, or from more."""
        for other in nodes:
            sources = set(self._sources_of(other))
            for name in self.after.reads(self.after.nodes[other]):
                operand = self.after.makers.get(name, (-1, 0))[0]
                if operand in nodes and (sources >= set(self._sources_of(operand)) or sources <= set(self._sources_of(operand))):
                    yield operand, other

    def _made_from(self) -> dict[int, int]:
        """For nodes of the first graph without a counterpart, the node of the second that was made from them; from the fewest, if there are
        several."""
        mine, theirs = self._open()
        named = {called(self.before.nodes[i]): i for i in reversed(mine)}
        found: dict[int, int] = {}
        sources = [(self._sources_of(i), i) for i in theirs]
        for names, i in sorted(sources, key=lambda each: len(each[0])):
            for name in names:
                if name in named:
                    found.setdefault(named[name], i)
        return found


def function_body(function: FunctionProto) -> GraphProto:
    """The body of a function as a graph with untyped inputs and outputs."""
    inputs, outputs = ([ValueInfoProto(name=name) for name in names] for names in (function.input, function.output))
    return GraphProto(node=function.node, input=inputs, output=outputs)


def operators(nodes: Sequence[NodeProto]) -> Counter[str]:
    """Counts the operators; names of custom domains include the domain."""
    return Counter(".".join(part for part in _kind(node) if part) for node in nodes)


def called(node: NodeProto) -> str:
    """The name of a node, or of its first result."""
    return node.name or next((name for name in node.output if name), "")


def location_of(function: FunctionProto) -> str:
    """The location of the nodes of a local function."""
    return f"function {'.'.join(filter(None, (function.domain, function.name, function.overload)))}"


def location_within(where: str, node: NodeProto, attribute: str) -> str:
    """The location of the nodes of a subgraph, which is an attribute of a node at another location ("" is the main graph)."""
    return f"{where}, {node.op_type} {called(node)!r}: {attribute}".removeprefix(", ")


def _kind(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _is_large(content: object) -> bool:
    """Whether a constant has more than one element, and thus can identify nodes."""
    return isinstance(content, tuple) and any(size != 1 for size in content[1])
