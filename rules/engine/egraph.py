"""The bridge to egglog, and the only file that imports it: constructors by TSV load, queries that only record matches, `freeze` for
reading.

All values that cross the bridge are integers. A node has an id; the key of an e-class is its smallest id (`key`).
"""

import importlib.machinery
import importlib.util
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from passat.ir.passat_error import PassatError

if TYPE_CHECKING:
    from egglog.bindings import EGraph as Bindings
    from egglog.bindings import Input

_PRELUDE = (
    "(sort E)",
    "(constructor Ref (i64) E :unextractable)",
    "(function key (E) i64 :merge (min old new))",
    "(ruleset load)",
    "(ruleset moved)",
    "(ruleset name)",
    "(ruleset retire)",
    "(ruleset orders)",
    "(ruleset clear)",
    "(ruleset wipe)",
    "(ruleset forget)",
    "(relation in_bare (i64))",
    "(rule ((in_bare i)) ((set (key (Ref i)) i) (delete (in_bare i))) :ruleset load)",
    "(relation in_union (i64 i64))",
    "(rule ((in_union a b)) ((union (Ref a) (Ref b)) (delete (in_union a b))) :ruleset load)",
    "(rule ((= k (key e))) ((delete (key e))) :ruleset wipe)",
    "(rule ((= e (Ref i))) ((delete (Ref i))) :ruleset forget)",
    "(relation was_moved (i64 i64))",
    "(rule ((= e (Ref i)) (= k (key e)) (< k i)) ((was_moved i k)) :ruleset moved)",
    "(rule ((was_moved i k)) ((delete (was_moved i k))) :ruleset clear)",
)


KEPT: Final = 16
"""Number of e-graphs that a thread keeps, of a few megabytes each; the least recently used one is dropped first."""
USES: Final = 64
"""Number of reuses before an e-graph is discarded; egglog leaks about 30 kB of reports per run."""


class EngineError(PassatError, RuntimeError):
    """The engine failed. The e-graph must not be used again; the caller returns its input."""


class Query(NamedTuple):
    """A pattern to match. `atoms` are egglog facts over the variables. A match is the keys of the e-classes bound to `classes`, then the
    integers bound to `payloads`."""

    name: str
    atoms: tuple[str, ...]
    classes: tuple[str, ...]
    payloads: tuple[str, ...]


class EGraph:
    """An e-graph over nodes of declared symbols. Belongs to the thread that made it. Unusable after an EngineError."""

    def __init__(self) -> None:
        self._parsed: dict[str, list[AnyValue]] = {}
        self._pending: list[AnyValue] = []
        self._declared: set[str] = set()
        self._forms: list[tuple[int, int]] = []
        self._queries: dict[tuple[Query, int], int] = {}
        self.uses = 0
        try:
            self._egraph = _make()
            self._define(*_PRELUDE)
        except BaseException as error:
            raise _engine_error(error) from error

    def declare(self, symbol: str, arity: int, payload: bool) -> None:
        """Declares a symbol of `arity` operands, with or without an integer payload; idempotent."""
        if symbol in self._declared:
            return
        self._declared.add(symbol)
        operands = " ".join(f"a{i}" for i in range(arity))
        refs = " ".join(f"(Ref a{i})" for i in range(arity))
        p = " p" if payload else ""
        row = f"in_{symbol} i {operands}{p}"
        self._define(
            f"(constructor {symbol} ({'E ' * arity}{'i64' if payload else ''}) E)",
            f"(relation in_{symbol} (i64 {'i64 ' * (payload + arity)}))",
            f"(rule (({row})) ((union (Ref i) ({symbol} {refs}{p})) (set (key (Ref i)) i) (delete ({row}))) :ruleset load)",
            f"(rule ((= e ({symbol} {operands}{p}))) ((delete ({symbol} {operands}{p}))) :ruleset wipe)",
        )

    def declare_commuting(self, symbol: str, payload: bool) -> None:
        """Makes queries match a declared binary symbol in either order: as `(any_<symbol> e a b [p])`."""
        if f"any_{symbol}" in self._declared:
            return
        self._declared.add(f"any_{symbol}")
        p, sort = (" p", " i64") if payload else ("", "")
        node = f"({symbol} (Ref a0) (Ref a1){p})"
        self._define(
            f"(relation any_{symbol} (E E E{sort}))",
            f"(rule ((= e ({symbol} a b{p}))) ((any_{symbol} e a b{p}) (any_{symbol} e b a{p})) :ruleset orders)",
            f"(rule ((any_{symbol} e a b{p})) ((delete (any_{symbol} e a b{p}))) :ruleset wipe)",
        )
        self._define_retiring(symbol, 2, payload)
        retired = " ".join(
            f"(delete (any_{symbol} {node} (Ref {first}) (Ref {second}){p}))" for first, second in (("a0", "a1"), ("a1", "a0"))
        )
        self._define(f"(rule ((in_retire_{symbol} a0 a1{p})) ({retired}) :ruleset retire)")

    def declare_retiring(self, symbol: str, arity: int, payload: bool) -> None:
        """Allows retiring nodes of a declared symbol: nodes loaded under `retire_<symbol>` as `operands [payload]` no longer match."""
        self._define_retiring(symbol, arity, payload)

    def _define_retiring(self, symbol: str, arity: int, payload: bool) -> None:
        if f"retire_{symbol}" in self._declared:
            return
        self._declared.add(f"retire_{symbol}")
        operands = " ".join(f"a{i}" for i in range(arity))
        refs = " ".join(f"(Ref a{i})" for i in range(arity))
        p = " p" if payload else ""
        row = f"in_retire_{symbol} {operands}{p}"
        retired = f"retired_{symbol} {operands}{p}"  # `wipe` needs them, since queries do not find subsumed nodes
        columns = "i64 " * (payload + arity)
        self._define(
            f"(relation in_retire_{symbol} ({columns}))",
            f"(relation retired_{symbol} ({columns}))",
            f"(rule (({row})) (({retired}) (delete ({row})) (subsume ({symbol} {refs}{p}))) :ruleset retire)",
            f"(rule (({retired})) ((delete ({symbol} {refs}{p})) (delete ({retired}))) :ruleset wipe)",
        )

    def add_query(self, query: Query, stage: int = 0) -> int:
        """Adds a query, which matches existing and future nodes in steps of its stage. Returns its number; idempotent.

        Matches are recorded as e-classes; one rule per query form looks up their keys. Key atoms in the queries themselves would multiply
        the joins that egglog repeats whenever a key changes.
        """
        known = self._queries.get((query, stage))
        if known is not None:
            return known
        number, form = len(self._queries), (len(query.classes), len(query.payloads))
        self._queries[query, stage] = number
        if f"match {stage}" not in self._declared:
            self._declared.add(f"match {stage}")
            self._define(f"(ruleset match_of_{stage})")
        found, match = f"found_{form[0]}_{form[1]}", f"match_{form[0]}_{form[1]}"
        if form not in self._forms:
            self._forms.append(form)
            payloads = " ".join(f"p{i}" for i in range(form[1]))
            classes = " ".join(f"e{i}" for i in range(form[0]))
            keys = " ".join(f"k{i}" for i in range(form[0]))
            lookups = " ".join(f"(= k{i} (key e{i}))" for i in range(form[0]))
            row = f"({found} n {classes} {payloads})"
            self._define(
                f"(relation {found} (i64 {'E ' * form[0]}{'i64 ' * form[1]}))",
                f"(relation {match} (i64 {'i64 ' * sum(form)}))",
                f"(rule ({row} {lookups}) (({match} n {keys} {payloads}) (delete {row})) :ruleset name)",
                f"(rule (({match} n {keys} {payloads})) ((delete ({match} n {keys} {payloads}))) :ruleset clear)",
            )
        head = f"({found} {number} {' '.join((*query.classes, *query.payloads))})"
        self._define(f'(rule ({" ".join(query.atoms)}) ({head}) :ruleset match_of_{stage} :name "{number} {query.name}")')
        return number

    def wipe(self) -> None:
        """Deletes all nodes, and keeps the definitions. `(push)` and `(pop)` would copy and drop every definition, and take four times as
        long."""
        self.uses += 1
        self._guarded("(run wipe 1)", "(run forget 1)")

    def load(self, rows: Mapping[str, Sequence[str]], unions: Iterable[tuple[int, int]] = ()) -> None:
        """Adds nodes and unites e-classes, then restores congruence (rebuild). `rows` has per symbol lines `id operands [payload]`, tab
        separated; under `bare`, ids of nodes that queries match only as operands; under `retire_<symbol>`, nodes to retire."""
        tables = {f"in_{symbol}": lines for symbol, lines in rows.items() if lines}
        pairs = [f"{a}\t{b}" for a, b in unions]
        if pairs:
            tables["in_union"] = pairs
        if not tables:
            return
        files = [_TableFile(name, lines) for name, lines in tables.items()]
        try:
            self._flush()
            retiring = any(name.startswith("in_retire_") for name in tables)
            inputs = [_input(file.name, file.path) for file in files]
            self._run(*(("(run retire 1)", "(run load 1)") if retiring else ("(run load 1)",)), first=inputs)
        except BaseException as error:
            raise _engine_error(error) from error
        finally:
            for file in files:
                file.close()

    def step(self, stages: Iterable[int] = (0,)) -> tuple[list[tuple[int, ...]], list[list[tuple[int, ...]]]]:
        """Runs every query of some stages once on new tuples. Returns the merges (see `merges`) and the new matches of each query. Rows are
        sorted, so that results are deterministic."""
        matches: list[list[tuple[int, ...]]] = [[] for _ in self._queries]
        asked = [f"(run match_of_{stage} 1)" for stage in stages if f"match {stage}" in self._declared]
        if asked:
            asked = ["(run orders 1)", *asked, "(run name 1)"]
        moved, tables = self._read("(run moved 1)", *asked, forms=self._forms)
        for table in tables:
            for number, *columns in table:
                matches[number].append(tuple(columns))
        for rows in matches:
            rows.sort()
        return moved, matches

    def merges(self) -> list[tuple[int, ...]]:
        """The nodes whose e-class got a smaller key since the last call, as (id, key). Runs no queries."""
        return self._read("(run moved 1)", forms=())[0]

    def _read(self, *schedule: str, forms: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, ...]], list[list[tuple[int, ...]]]]:
        try:
            self._flush()
            self._run("(run clear 1)", *schedule)  # clears the results of the last run
            functions = self._egraph.freeze().functions
            value = self._egraph.value_to_i64
            moved = sorted([tuple(map(value, row.inputs)) for row in functions["was_moved"].rows])
            tables = [[tuple(map(value, row.inputs)) for row in functions[f"match_{c}_{p}"].rows] for c, p in forms]
        except BaseException as error:
            raise _engine_error(error) from error
        return moved, tables

    def _guarded(self, *texts: str) -> None:
        try:
            self._flush()
            self._run(*texts)
        except BaseException as error:
            raise _engine_error(error) from error

    def _define(self, *texts: str) -> None:
        """Queues definitions, to run before the next use. They are parsed one by one, since parsing them as one text is many times
        slower."""
        try:
            for text in texts:
                self._pending += self._egraph.parse_program(text)
        except BaseException as error:
            raise _engine_error(error) from error

    def _flush(self) -> None:
        if self._pending:
            self._egraph.run_program(*self._pending)
            self._pending = []

    def _run(self, *texts: str, first: Sequence[AnyValue] = ()) -> None:
        """Runs commands in one call, after non-text commands; each call costs about 20 us."""
        commands = [*first]
        for text in texts:
            if text not in self._parsed:
                self._parsed[text] = self._egraph.parse_program(text)
            commands += self._parsed[text]
        self._egraph.run_program(*commands)


class EGraphs(threading.local):
    """A cache of e-graphs with their definitions, by key: defining queries takes longer than most saturations. Each thread has its own,
    since egglog's e-graphs must not leave their thread."""

    def __init__(self) -> None:
        self._free: dict[Hashable, EGraph] = {}

    @contextmanager
    def lend(self, key: Hashable) -> Iterator[EGraph]:
        """Borrows an e-graph without nodes, new or with the definitions for the key. The borrower calls `begin` before it adds nodes. An
        e-graph that fails is not lent again. Raises RuntimeError in a process forked after egglog ran, which would wait forever for threads
        of the parent."""
        if _FORKED:
            raise RuntimeError(
                "rules cannot run in a process that was forked after they ran in its parent; start processes with spawn: "
                'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
            )
        egraph = self._free.pop(key, None) or EGraph()
        yield egraph
        if egraph.uses < USES:
            egraph.wipe()
            self._free[key] = egraph
        if len(self._free) > KEPT:
            del self._free[next(iter(self._free))]


_FORKED: Final[list[bool]] = []
"""Nonempty in a process that was forked after egglog was imported."""


def _in_child() -> None:
    if "egglog.bindings" in sys.modules:
        _FORKED.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _make() -> "Bindings":
    """A new egglog e-graph. Imports egglog, which many runs do not need."""
    made: Bindings = _bindings().EGraph()
    return made


def _input(table: str, path: str) -> "Input":
    bindings = _bindings()
    made: Input = bindings.Input(bindings.RustSpan("passat", 0, 0), table, path)
    return made


_IMPORTING: Final = threading.Lock()


def _bindings() -> ModuleType:
    """egglog's bindings alone. The full package, with its language and formatter, takes fifteen times as long to import. A later import of
    it uses these bindings, since a process can have only one copy."""
    name = "egglog.bindings"
    with _IMPORTING:
        found = sys.modules.get(name)
        if found is None and "egglog" not in sys.modules:
            package = importlib.util.find_spec("egglog")
            spec = None if package is None else importlib.machinery.PathFinder.find_spec(name, package.submodule_search_locations)
            if spec is not None and spec.loader is not None:
                found = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(found)
                sys.modules[name] = found
        logger = logging.getLogger("egglog")
        if logger.level == logging.NOTSET:  # at INFO it logs every command and every report: thousands of lines for a small model
            logger.setLevel(logging.WARNING)
        return importlib.import_module(name) if found is None else found


class _TableFile:
    """A file from which egglog reads a table: in memory on Linux, a temporary file elsewhere."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name = name
        data = ("\n".join(lines) + "\n").encode()
        self._temporary: str | None = None
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create(name)
            self.path = f"/proc/self/fd/{self._descriptor}"
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="passat-", suffix=".tsv")
            self._temporary = self.path
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        os.close(self._descriptor)
        if self._temporary is not None:
            os.unlink(self._temporary)


def _engine_error(error: BaseException) -> BaseException:
    """egglog's panics derive from BaseException but are treated as ordinary errors; interrupts and the like propagate."""
    if type(error).__name__ in ("EggSmolError", "PanicException"):
        return EngineError(f"egglog failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return error
