"""Where nodes stand: laws for any graph."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.page.layout import HEIGHT, HUB, lay_out


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[float]]:
    size = draw(st.integers(0, 60))
    operands = [draw(st.lists(st.integers(0, node - 1), max_size=3)) if node else [] for node in range(size)]
    return operands, [draw(st.sampled_from([58.0, 90.0, 240.0])) for _ in range(size)]


@settings(deadline=None, max_examples=80)
@given(graphs())
def test_boxes_are_apart_and_below_their_operands(graph: tuple[list[list[int]], list[float]]) -> None:
    operands, widths = graph
    layout = lay_out(operands, widths)
    rows: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for node, parts in enumerate(operands):
        rows.setdefault((layout.column[node], layout.y[node]), []).append((layout.x[node], widths[node]))
        for part in parts:
            assert (layout.column[part], layout.y[part] + HEIGHT) <= (layout.column[node], layout.y[node])
    for row in rows.values():
        for (x, width), (after, _) in pairwise(sorted(row)):
            assert x + width < after
    assert min(layout.x, default=0) >= 0


@pytest.mark.parametrize("length", [5_000])
def test_long_chains_stand_in_columns(length: int) -> None:
    layout = lay_out([[node - 1] if node else [] for node in range(length)], [60.0] * length)
    columns = max(layout.column) + 1
    assert columns > 10
    wide, high = max(layout.x), max(layout.y)
    assert 0.4 < wide / high < 2.5
    assert len(set(zip(layout.column, layout.y, strict=True))) == length


def test_what_is_not_connected_stands_side_by_side() -> None:
    layout = lay_out([[], [0], [1], [], [3], [4]], [60.0] * 6)
    assert max(layout.x[:3]) + 60 < min(layout.x[3:])


def test_what_everybody_uses_moves_nobody() -> None:
    chain = [[], [], *([node - 1, 0] for node in range(2, HUB + 20))]
    layout = lay_out(chain, [60.0] * len(chain))
    assert len(set(layout.x[2:])) == 1


def test_a_graph_without_nodes() -> None:
    assert lay_out([], []).x == []


def test_a_very_wide_graph_takes_no_time_in_its_square() -> None:
    count = 20_000
    layout = lay_out([[], *([0] for _ in range(count)), list(range(1, 200))], [60.0] * (count + 2))
    assert len(layout.x) == count + 2
