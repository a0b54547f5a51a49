"""`passat extract`: its output for an e-graph, and its errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from passat.cli.app import app

SHARED = {
    "nodes": {
        "top": {"op": "+", "cost": 0, "eclass": "top", "children": ["l0", "r0"]},
        "l0": {"op": "a", "cost": 5, "eclass": "l", "children": []},
        "l1": {"op": "b", "cost": 1, "eclass": "l", "children": ["s"]},
        "r0": {"op": "c", "cost": 5, "eclass": "r", "children": []},
        "r1": {"op": "d", "cost": 1, "eclass": "r", "children": ["s"]},
        "s": {"op": "s", "cost": 6, "eclass": "s", "children": []},
    },
    "root_eclasses": ["top"],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shared.json"
    path.write_text(json.dumps(SHARED))
    return path


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["extract", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_cost_bound_and_time_are_printed(file: Path) -> None:
    text = run(file)
    assert "6 e-nodes, 4 e-classes, 1 root\n" in text
    assert "dag    cost 10, in" in text
    assert "exact  cost 8, in" in text
    assert "cost 8: proven optimal; 4 nodes, in" in text


def test_without_time_nothing_is_proven(file: Path) -> None:
    text = run(file, "--time-limit", "0")
    assert "cost 10: nothing proven; 3 nodes" in text
    assert "exact" not in text


def test_json(file: Path) -> None:
    data: dict[str, Any] = json.loads(run(file, "--json", "--choice"))
    assert data["cost"] == pytest.approx(8)
    assert data["bound"] == pytest.approx(8)
    assert data["proven"] is True
    assert list(data["stages"]) == ["trees", "dag", "exact"]
    assert sorted(data["choice"]) == ["l1", "r1", "s", "top"]
    assert data["choice"][0] == "s"
    assert json.loads(run(file, "--json"))["choice"] is None


def test_the_choice_is_printed_parts_before_wholes(file: Path) -> None:
    lines = run(file, "--choice").splitlines()
    assert lines[-4] == "s"
    assert lines[-1] == "top"


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    missing = run(tmp_path / "none.json", code=1)
    assert missing.startswith("error: ")
    assert "none.json: No such file or directory" in missing
    cyclic = tmp_path / "cyclic.json"
    cyclic.write_text('{"nodes": {"a": {"op": "f", "cost": 1, "eclass": "a", "children": ["a"]}}, "root_eclasses": ["a"]}')
    text = run(cyclic, code=1)
    assert "cyclic.json: the root e-class of node 'a' has no finite program" in text
    for cost in ("1e308", "1" + 400 * "0"):
        cyclic.write_text(f'{{"nodes": {{"a": {{"op": "f", "cost": {cost}, "eclass": "a", "children": []}}}}, "root_eclasses": ["a"]}}')
        assert "it must be a number from 0 to 1e+100" in run(cyclic, code=1)
    for content, why in (
        (b"{", "Expecting property name"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"\x08\xff", "it is not text in UTF-8"),
    ):
        cyclic.write_bytes(content)
        assert f"cyclic.json is not JSON: {why}" in run(cyclic, code=1)
    assert "Traceback" not in text
    run(cyclic, "--time-limit", "-1", code=2)


def test_the_next_best_are_different_programs(file: Path) -> None:
    text = run(file, "--top", "4")
    assert "cost 8: proven optimal" in text
    assert text.splitlines()[-3:] == ["also cost 10, 3 nodes", "also cost 12, 4 nodes", "also cost 12, 4 nodes"]
    found = json.loads(run(file, "--top", "3", "--choice", "--json"))
    assert [other["cost"] for other in found["others"]] == [10, 12]
    assert sorted(found["others"][0]["choice"]) == ["l0", "r0", "top"]
    assert json.loads(run(file, "--json"))["others"] == []
    run(file, "--top", "0", code=2)
