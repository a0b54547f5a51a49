"""Which nodes of two graphs correspond to each other, and where the graphs differ.

Nodes correspond, in this order of trust: where they compute the same from the same inputs; where they apply the same operator to the same
constants, which no other node does; from results backward and from operands forward along nodes that correspond already; by name. What is
left over on either side, taken together with all that it touches, is a difference.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.plain_nodes import constant_text, plain
from passat.ir.onnx.same_graph import COMMUTATIVE, Numbering, constant_of, content_of, sparse_content
from passat.ir.onnx.scope import free_names, sort_nodes, subgraphs

_ROUNDS: Final = 100
"""Rounds in which correspondences spread; each costs a walk over both graphs, and all but a few find nothing new."""


class Pair(NamedTuple):
    """Nodes that correspond: their places in the two graphs, and whether they compute the same from the same inputs."""

    before: int
    after: int
    same: bool


class Place(NamedTuple):
    """A difference: connected nodes of the first graph, and those of the second that stand instead of them. Either may be none."""

    before: tuple[int, ...]
    after: tuple[int, ...]


class Whole(NamedTuple):
    """What graphs share with the model that they are in: the folder of external data, and the versions of domains."""

    folder: str | None
    opsets: Mapping[str, int]


class Side:
    """One of two graphs, with the numbers of its values (`Numbering`). Constant nodes count as constants, not as nodes; attributes that say
    what is the default are left out."""

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
                self.nodes.append(plain(node, whole.opsets))
            else:
                self.constants[node.output[0]] = held
        self.own_inputs = {value.name for value in graph.input}
        self.values.update((name, numbering.number(("constant", key))) for name, key in self.constants.items())
        self.makers = {name: (i, place) for i, node in enumerate(self.nodes) for place, name in enumerate(node.output) if name}
        read = {name for node in self.nodes for name in node.input if name}
        for name in read - (self.own_inputs | self.values.keys() | self.makers.keys()):  # of a model that no checker accepts
            self.values[name] = numbering.number(("made by nothing", name))
        self.forms = [numbering.describe(node, self.captured(node)) for node in self.nodes]
        self.numbers: list[int] = []

    def inputs(self) -> list[ValueInfoProto]:
        """The inputs that have no value of the model's own."""
        return [value for value in self.graph.input if value.name not in self.constants]

    def show(self, name: str) -> str:
        """What a value is: a constant, the result of a node, or an input."""
        if not name:
            return "none"
        if name in self.constants:
            return constant_text(self.constants[name])
        if name not in self.makers:
            return repr(name)
        node, place = self.makers[name]
        return f"{f'output {place} of ' if place else ''}{self.nodes[node].op_type} {called(self.nodes[node])!r}"

    def captured(self, node: NodeProto) -> list[str]:
        """What the graphs of a node read from outside."""
        return [name for graph in subgraphs(node) for name in free_names(graph)]

    def reads(self, node: NodeProto) -> list[str]:
        """All values that a node reads: its operands, and what its graphs read from outside."""
        return [*node.input, *self.captured(node)]

    def renumber(self, tokens: Mapping[int, int]) -> None:
        """Numbers all values anew; those of nodes that are listed in `tokens` by these."""
        number = self._numbering.number
        values = self.values
        self.numbers = []
        for i, node in enumerate(self.nodes):
            own = number(("corresponds", tokens[i])) if i in tokens else self._numbering.node(node, values)
            self.numbers.append(own)
            values.update((name, number((own, place))) for place, name in enumerate(node.output) if name)


class Alignment:
    """The correspondence of two graphs. `pairs` are the nodes that correspond, in the order of the second graph; `places` the differences,
    in the order of the first. `outer` is the correspondence of the graphs around them. Inputs and outputs correspond by name, and by place
    where only one graph has the name; where `by_place` is set, as for subgraphs, by place alone. Raises OnnxError for a cycle."""

    def __init__(
        self,
        graphs: tuple[GraphProto, GraphProto],
        wholes: tuple[Whole, Whole],
        numbering: Numbering,
        *,
        outer: "Alignment | None" = None,
        by_place: bool = False,
    ) -> None:
        around: tuple[Mapping[str, int], Mapping[str, int]] = (outer.before.values, outer.after.values) if outer is not None else ({}, {})
        try:
            self.before: Side = Side(graphs[0], numbering, wholes[0], around[0])
            self.after: Side = Side(graphs[1], numbering, wholes[1], around[1])
        except ValueError as error:
            raise OnnxError(str(error)) from error
        self._to: dict[int, int] = {}
        self._from: dict[int, int] = {}
        self.wholes, self._outer, self._by_place = wholes, outer, by_place
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

    def after_of(self, node: int) -> int | None:
        """The node of the second graph that corresponds to one of the first."""
        return self._to.get(node)

    def values_correspond(self, one: str, other: str) -> bool:
        """Whether a value of the first graph corresponds to one of the second."""
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
        """Which of the values given in pairs are not the same, by their places, where no difference that is listed for itself explains it:
        constants, inputs, and results of nodes that have counterparts."""
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
        """Whether a value of a graph, or of one around it, is the result of a node without a counterpart."""
        aligned: Alignment | None = self
        while aligned is not None:
            side = (aligned.before, aligned.after)[number]
            if name in side.makers:
                return side.makers[name][0] not in (aligned._to, aligned._from)[number]
            aligned = None if name in side.constants or name in side.own_inputs else aligned._outer
        return False

    def _number_inputs(self, numbering: Numbering) -> None:
        """Inputs of one name are the same; of the others those are that stand at the same place, and have the same type."""
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
        """Pairs nodes of equal numbers, those of one name first."""
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
        """Pairs the nodes that make outputs."""
        return self._pair_values(self.outputs())

    def _pair_values(self, values: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
        """Pairs what makes values, where it is the same operator with the same attributes and has no counterpart yet."""
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
        """Pairs what makes the operands of pairs, and so on."""
        waiting = list(pairs)
        while waiting:
            one, other = waiting.pop()
            waiting += self._pair_values(self.operands(one, other))

    def operands(self, one: int, other: int) -> list[tuple[str, str]]:
        """The operands of nodes that correspond, in pairs; where the order makes no difference, those that correspond stand together."""
        mine, theirs = self.before.reads(self.before.nodes[one]), self.after.reads(self.after.nodes[other])
        node = self.before.nodes[one]
        if len(mine) == len(theirs) == 2 and node.op_type in COMMUTATIVE and node.domain in ("", "ai.onnx"):
            crossed = sum(map(self.values_correspond, mine, reversed(theirs)))
            if crossed > sum(map(self.values_correspond, mine, theirs)):
                theirs = theirs[::-1]
        return list(zip(mine, theirs, strict=False))

    def _pair_constants(self) -> list[tuple[int, int]]:
        """Pairs nodes of one operator that alone read the same constants of more than one element."""
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
        """Pairs nodes that compute the same of values that correspond."""
        for side, tokens in ((self.before, {i: i for i in self._to}), (self.after, self._from)):
            side.renumber(tokens)
        return self._pair_equal()

    def _pair_names(self) -> list[tuple[int, int]]:
        """Pairs nodes of one operator whose first result, or which themselves, have the same name."""
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
        """The nodes without a counterpart, those together that feed each other alone, or that the same operand of nodes that correspond
        comes from."""
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
        for values in [self.outputs(), *(self.operands(one, other) for one, other in self._to.items())]:
            for one, other in values:
                makers = ((0, self.before.makers.get(one, (-1, 0))[0]), (1, self.after.makers.get(other, (-1, 0))[0]))
                if makers[0] in leader and makers[1] in leader:
                    leader[find(makers[0])] = find(makers[1])
        for each in sorted(leader, reverse=True):  # readers first
            if len({find(reader) for reader in readers.get(each, ())}) == 1:  # what several places read is a place of its own
                leader[find(each)] = find(readers[each][0])
        groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for each in sorted(leader):
            groups.setdefault(find(each), ([], []))[each[0]].append(each[1])
        for mine, theirs in groups.values():
            yield Place(tuple(mine), tuple(theirs))


def function_body(function: FunctionProto) -> GraphProto:
    """The body of a function as a graph, whose inputs and outputs have no types."""
    inputs, outputs = ([ValueInfoProto(name=name) for name in names] for names in (function.input, function.output))
    return GraphProto(node=function.node, input=inputs, output=outputs)


def operators(nodes: Sequence[NodeProto]) -> Counter[str]:
    """How often each operator occurs, names of other domains carrying the domain."""
    return Counter(".".join(part for part in _kind(node) if part) for node in nodes)


def called(node: NodeProto) -> str:
    """What a node is called: its name, or that of its first result."""
    return node.name or next((name for name in node.output if name), "")


def _kind(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _is_large(content: object) -> bool:
    """Whether a constant has more than one element, so that it may tell nodes apart."""
    return isinstance(content, tuple) and any(size != 1 for size in content[1])
