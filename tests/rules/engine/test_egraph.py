"""The bridge to egglog: symbols, rows, queries, unions, retired nodes, the order of results, and behavior on failure."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from passat.rules.engine import egraph as bridge
from passat.rules.engine.egraph import EGraph, EGraphs, EngineError, Query
from tests.patience import PATIENCE

Rows = Mapping[str, Sequence[str]]


def row(*numbers: int) -> str:
    return "\t".join(map(str, numbers))


def arithmetic() -> EGraph:
    """An e-graph with a leaf (payload), a unary symbol, and a binary symbol with a payload."""
    graph = EGraph()
    graph.declare("s_leaf", 0, True)
    graph.declare("s_neg", 1, False)
    graph.declare("s_add", 2, True)
    return graph


NEG_NEG = Query(("(= e0 (s_neg e1))", "(= e1 (s_neg e2))"), ("e0", "e2"), ())
ADD = Query(("(= e0 (s_add e1 e2 p0))",), ("e0", "e1", "e2"), ("p0",))
LEAF = Query(("(= e0 (s_leaf p0))",), ("e0",), ("p0",))


def chain(length: int) -> Rows:
    return {"s_leaf": [row(0, 7)], "s_neg": [row(i + 1, i) for i in range(length)]}


def answers(graph: EGraph, *queries: int) -> list[list[tuple[int, ...]]]:
    """The new matches of some queries."""
    matches = graph.step(queries)[1]
    return [matches[query] for query in queries]


def test_a_query_finds_loaded_nodes_once() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load(chain(3))
    assert graph.step([number]) == ([], {number: [(2, 0), (3, 1)]})
    assert graph.step([number]) == ([], {number: []})


def test_payloads_are_columns_and_matched() -> None:
    graph = arithmetic()
    both, leaves = graph.add_query(ADD), graph.add_query(LEAF)
    graph.load({"s_leaf": [row(0, 5), row(1, 9)], "s_add": [row(2, 0, 1, 3), row(3, 1, 0, -4)]})
    assert answers(graph, both, leaves) == [[(2, 0, 1, 3), (3, 1, 0, -4)], [(0, 5), (1, 9)]]


def test_only_new_matches_are_found_again() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load(chain(2))
    assert answers(graph, number) == [[(2, 0)]]
    graph.load({"s_neg": [row(3, 2)]})
    assert answers(graph, number) == [[(3, 1)]]


def test_a_query_that_is_not_asked_finds_its_matches_later() -> None:
    graph = arithmetic()
    number, other = graph.add_query(NEG_NEG), graph.add_query(LEAF)
    graph.load(chain(2))
    assert answers(graph, other) == [[(0, 7)]]
    graph.load({"s_neg": [row(3, 2)]})
    assert answers(graph, number, other) == [[(2, 0), (3, 1)], []]


def test_each_copy_of_a_query_finds_all_matches() -> None:
    graph = arithmetic()
    number, copy = graph.add_query(NEG_NEG), graph.add_query(NEG_NEG, 1)
    graph.load(chain(2))
    assert answers(graph, number) == [[(2, 0)]]
    assert answers(graph, number, copy) == [[], [(2, 0)]]


def test_rows_may_come_in_any_order_and_before_their_operands() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load({"s_neg": [row(2, 1), row(3, 2), row(1, 0)], "s_leaf": [row(0, 7)]})
    assert answers(graph, number) == [[(2, 0), (3, 1)]]


def test_equal_nodes_are_one_class_of_the_smallest_id() -> None:
    graph = arithmetic()
    graph.load({"s_leaf": [row(0, 7), row(1, 7), row(2, 8)]})
    assert graph.step(())[0] == [(1, 0)]
    assert graph.step(())[0] == []


def test_unions_restore_congruence() -> None:
    graph = arithmetic()
    number = graph.add_query(ADD)
    graph.load({"s_leaf": [row(0, 1), row(1, 2)], "s_neg": [row(2, 0), row(3, 1)], "s_add": [row(4, 2, 2, 0), row(5, 3, 2, 0)]})
    graph.step([number])
    graph.load({}, [(0, 1)])
    moved, matches = graph.step([number])
    assert moved == [(1, 0), (3, 2), (5, 4)]
    assert set(matches[number]) <= {(4, 2, 2, 0)}


def test_a_union_lets_a_query_match_across_classes() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load({"s_leaf": [row(0, 1), row(1, 2)], "s_neg": [row(2, 0), row(3, 1)]})
    assert answers(graph, number) == [[]]
    graph.load({}, [(1, 2)])
    assert graph.step([number]) == ([(2, 1)], {number: [(3, 0)]})


def test_bare_nodes_are_operands_and_nothing_else() -> None:
    graph = arithmetic()
    number = graph.add_query(ADD)
    graph.load({"bare": ["0", "1"], "s_add": [row(2, 0, 1, 0), row(3, 2, 2, 0)]})
    assert answers(graph, number) == [[(2, 0, 1, 0), (3, 2, 2, 0)]]


def test_a_retired_node_does_not_match() -> None:
    graph = arithmetic()
    graph.declare_retiring("s_neg", 1, False)
    graph.declare_retiring("s_add", 2, True)
    negs, adds = graph.add_query(NEG_NEG), graph.add_query(ADD)
    graph.load({**chain(2), "s_add": [row(3, 0, 0, 1), row(4, 0, 0, 2)]})
    graph.step([negs, adds])
    graph.load({"retire_s_neg": [row(1)], "retire_s_add": [row(0, 0, 1)]})
    # if they were not retired, the union would return all nodes above the leaf again
    graph.load({"s_leaf": [row(5, 8)]}, [(0, 5)])
    negated, added = answers(graph, negs, adds)
    assert negated == []
    assert all(found[3] == 2 for found in added)


def test_a_node_may_be_retired_as_it_is_loaded() -> None:
    graph = arithmetic()
    graph.declare_retiring("s_neg", 1, False)
    number = graph.add_query(NEG_NEG)
    for _ in range(3):
        graph.load({**chain(3), "retire_s_neg": [row(0)]})
        assert answers(graph, number) == [[(3, 1)]]
        graph.wipe()


def test_a_retired_node_still_counts_for_congruence() -> None:
    graph = arithmetic()
    graph.declare_retiring("s_neg", 1, False)
    graph.load({"s_leaf": [row(0, 1), row(1, 2)], "s_neg": [row(2, 0), row(3, 1)]})
    graph.load({"retire_s_neg": [row(0)]})
    graph.load({}, [(0, 1)])
    assert graph.step(())[0] == [(1, 0), (3, 2)]


def test_declaring_and_asking_again_does_nothing() -> None:
    graph = arithmetic()
    graph.declare("s_neg", 1, False)
    graph.declare_retiring("s_neg", 1, False)
    graph.declare_retiring("s_neg", 1, False)
    assert graph.add_query(NEG_NEG) == graph.add_query(NEG_NEG) == 0
    assert graph.add_query(ADD) == 1
    graph.load({})
    assert graph.step([0, 1]) == ([], {0: [], 1: []})


def test_answers_are_sorted() -> None:
    graph = arithmetic()
    number = graph.add_query(LEAF)
    graph.load({"s_leaf": [row(i, (i * 7919) % 1009) for i in range(1000)]})
    (found,) = answers(graph, number)
    assert found == sorted(found)
    assert len(found) == 1000


def test_a_chain_of_50_000_is_processed() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load(chain(50_000))
    (found,) = answers(graph, number)
    assert len(found) == 49_999


def test_definitions_stay_and_nodes_are_removed() -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    for length in (2, 3, 2):
        graph.load(chain(length), [(0, length)])
        moved, matches = graph.step([number])
        assert moved
        assert len(matches[number]) == length
        graph.wipe()
        assert graph.step([number]) == ([], {number: []})


def test_a_thread_has_one_e_graph() -> None:
    graphs = EGraphs()
    with graphs.lend() as first:
        pass
    with graphs.lend() as again:
        assert again is first
        with graphs.lend() as other:  # the first is in use
            assert other is not first


def test_an_e_graph_that_failed_is_not_lent_again() -> None:
    graphs = EGraphs()
    first = None
    try:
        with graphs.lend() as first:
            first.load({"unknown": [row(1)]})
    except EngineError:
        pass
    else:
        pytest.fail("a table that is not declared was loaded")
    with graphs.lend() as again:
        assert again is not first


def test_e_graphs_are_not_kept_without_end() -> None:
    graphs = EGraphs()
    lent: list[EGraph] = []
    for _ in range(bridge.USES + 2):
        with graphs.lend() as graph:
            lent.append(graph)
    assert lent[0] is lent[bridge.USES]
    assert lent[0] is not lent[-1]


@pytest.fixture
def no_memfd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_without_files_in_memory_temporary_ones_serve(no_memfd: Path) -> None:
    graph = arithmetic()
    number = graph.add_query(NEG_NEG)
    graph.load(chain(1000))
    assert len(graph.step([number])[1][number]) == 999
    assert list(no_memfd.iterdir()) == []


def test_temporary_files_go_when_loading_fails(no_memfd: Path) -> None:
    graph = arithmetic()
    with pytest.raises(EngineError):
        graph.load({"s_neg": ["no number"]})
    assert list(no_memfd.iterdir()) == []


def test_failures_of_egglog_are_engine_errors() -> None:
    with pytest.raises(EngineError, match="egglog failed: "):
        arithmetic().add_query(Query(("(= e0 (",), ("e0",), ()))
    graph = arithmetic()
    graph.add_query(Query(("(= e0 (nothing e1))",), ("e0",), ()))
    with pytest.raises(EngineError, match="egglog failed: "):
        graph.step([0])
    with pytest.raises(EngineError, match="egglog failed: "):
        arithmetic().load({"s_leaf": ["1\tx"]})


def test_a_panic_is_an_engine_error() -> None:
    """egglog's panics are not ordinary exceptions. A missing table file causes one."""
    graph = arithmetic()
    graph.load({"s_leaf": [row(0, 1)]})

    class Gone(bridge._TableFile):
        """A file that was removed."""

        def __init__(self, name: str, lines: Sequence[str]) -> None:
            super().__init__(name, lines)
            self.path = "/nowhere/passat.tsv"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bridge, "_TableFile", Gone)
        with pytest.raises(EngineError, match="egglog failed: ") as caught:
            graph.load({"s_leaf": [row(1, 2)]})
    assert type(caught.value.__cause__).__name__ == "PanicException"


def test_interrupts_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = arithmetic()
    graph.load(chain(2))
    number = graph.add_query(NEG_NEG)

    def interrupt(*texts: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(graph, "_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        graph.step([number])


def test_egglog_is_only_imported_when_it_is_needed() -> None:
    script = "import sys, passat.rules.passes; assert 'egglog' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def lend(answers: Connection) -> None:
    try:
        with EGraphs().lend():
            answers.send("")
    except RuntimeError as error:
        answers.send(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_rejects_rather_than_waits_forever() -> None:
    with EGraphs().lend() as graph:
        graph.wipe()
    answers, theirs = Pipe(duplex=False)
    process = get_context("fork").Process(target=lend, args=(theirs,))
    process.start()
    answered = answers.poll(PATIENCE)
    process.kill()
    assert answered
    assert "in a process that was forked" in answers.recv()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_can_discard_the_e_graphs_of_its_parent() -> None:
    graphs = [EGraph()]
    graphs[0].wipe()
    process = get_context("fork").Process(target=graphs.clear)
    process.start()
    process.join(PATIENCE)
    code = process.exitcode
    process.kill()
    assert code == 0
