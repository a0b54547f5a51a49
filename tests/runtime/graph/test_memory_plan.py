"""The storage of a graph's values."""

from hypothesis import given
from hypothesis import strategies as st

from passat.runtime.graph.memory_plan import PlannedNode, plan_memory


def test_two_storages_suffice_for_a_chain() -> None:
    nodes = [PlannedNode((), [40], "fixed"), PlannedNode((), [4], "fixed"), PlannedNode([(1, 0)], [4]), PlannedNode([(0, 0), (2, 0)], [40])]
    nodes += [PlannedNode([(i, 0)], [40]) for i in range(3, 8)]
    plan = plan_memory(nodes, [(8, 0)])
    assert len(plan.sizes) == 4
    assert plan.sizes == [40, 4, 40, 40]


def test_a_view_shares_the_storage_of_its_input() -> None:
    nodes = [PlannedNode((), [8], "fixed"), PlannedNode([(0, 0)], [8]), PlannedNode([(1, 0)], [8], "view"), PlannedNode([(1, 0)], [8])]
    plan = plan_memory([*nodes, PlannedNode([(3, 0)], [8])], [(2, 0), (4, 0)])
    assert plan.storage_ids[2] == plan.storage_ids[1]
    assert plan.storage_ids[4] != plan.storage_ids[1]


def test_storage_of_another_magnitude_is_not_reused() -> None:
    nodes = [PlannedNode((), [4], "fixed"), PlannedNode([(0, 0)], [4]), PlannedNode([(1, 0)], [1000]), PlannedNode([(2, 0)], [1000])]
    assert [ids for (ids,) in plan_memory(nodes, [(3, 0)]).storage_ids] == [0, 1, 2, 3]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[PlannedNode], list[tuple[int, int]]]:
    nodes: list[PlannedNode] = []
    for _ in range(draw(st.integers(1, 12))):
        entries = [(i, j) for i, node in enumerate(nodes) for j in range(len(node.sizes))]
        kind = draw(st.sampled_from(["fixed", "computed", "computed", "view"])) if entries else "fixed"
        if kind == "fixed":
            nodes.append(PlannedNode((), [draw(st.integers(0, 64))], "fixed"))
        elif kind == "view":
            read = draw(st.sampled_from(entries))
            nodes.append(PlannedNode([read], [nodes[read[0]].sizes[read[1]]], "view"))
        else:
            reads = draw(st.lists(st.sampled_from(entries), max_size=3))
            nodes.append(PlannedNode(reads, draw(st.lists(st.integers(0, 64), min_size=1, max_size=3))))
    entries = [(i, j) for i, node in enumerate(nodes) for j in range(len(node.sizes))]
    return nodes, draw(st.lists(st.sampled_from(entries), max_size=3))


@given(graphs())
def test_no_value_is_overwritten_before_its_last_use(graph: tuple[list[PlannedNode], list[tuple[int, int]]]) -> None:
    nodes, heads = graph
    plan = plan_memory(nodes, heads)
    held: dict[int, tuple[int, int]] = {}
    roots: dict[tuple[int, int], tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        for read in node.inputs:
            assert held[plan.storage_ids[read[0]][read[1]]] == roots[read]
        taken = {plan.storage_ids[i][j] for i, j in node.inputs}
        for index, (storage, size) in enumerate(zip(plan.storage_ids[number], node.sizes, strict=True)):
            assert plan.sizes[storage] >= size
            assert node.kind == "view" or storage not in taken  # nothing works in place
            roots[(number, index)] = roots[node.inputs[0]] if node.kind == "view" else (number, index)
            held[storage] = roots[(number, index)]
        assert node.kind == "view" or len(set(plan.storage_ids[number])) == len(node.sizes)
    for head in heads:
        assert held[plan.storage_ids[head[0]][head[1]]] == roots[head]
