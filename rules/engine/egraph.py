"""The bridge to egglog, and the only file that imports it: constructors by TSV load, queries that only record matches, `freeze` for
reading.

All values that cross the bridge are integers. A node has an id; the key of an e-class is its smallest id (`key`). Each table and each query
has a ruleset of its own, so that egglog runs only what is needed: a thread's e-graph has the definitions of all programs that it processed.
"""

import ctypes
import importlib.machinery
import importlib.util
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue
from weakref import WeakSet

from passat.ir.passat_error import PassatError

if TYPE_CHECKING:
    from egglog.bindings import EGraph as Bindings
    from egglog.bindings import Input

_PRELUDE = (
    "(sort E)",
    "(constructor Ref (i64) E :unextractable)",
    "(function key (E) i64 :merge (min old new))",
    "(ruleset moved)",
    "(ruleset orders)",
    "(ruleset clear)",
    "(ruleset wipe)",
    "(ruleset forget)",
    "(ruleset load_bare)",
    "(relation in_bare (i64))",
    "(rule ((in_bare i)) ((set (key (Ref i)) i) (delete (in_bare i))) :ruleset load_bare)",
    "(ruleset load_union)",
    "(relation in_union (i64 i64))",
    "(rule ((in_union a b)) ((union (Ref a) (Ref b)) (delete (in_union a b))) :ruleset load_union)",
    "(rule ((= k (key e))) ((delete (key e))) :ruleset wipe)",
    "(rule ((= e (Ref i))) ((delete (Ref i))) :ruleset forget)",
    "(relation was_moved (i64 i64))",
    "(rule ((= e (Ref i)) (= k (key e)) (< k i)) ((was_moved i k)) :ruleset moved)",
    "(rule ((was_moved i k)) ((delete (was_moved i k))) :ruleset clear)",
)


USES: Final = 256
"""Number of reuses before an e-graph is discarded; egglog leaks up to 100 kB of reports per use."""


DELETED: Final = -1
"""The key of what is no e-class: egglog (13.2) also finds deleted nodes for an atom with a repeated variable, such as `(where c x x)`."""


class EngineError(PassatError, RuntimeError):
    """The engine failed. The e-graph must not be used again; the caller returns its input."""


class Query(NamedTuple):
    """A pattern to match. `atoms` are egglog facts over the variables. A match is the keys of the e-classes bound to `classes`, then the
    integers bound to `payloads`. Rules with equal left sides have equal queries, which are asked once."""

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
        """The numbers of e-classes and of integers in a match of each query."""
        self._numbers: dict[tuple[Query, int], int] = {}
        self._stale: list[str] = []
        """The commands that clear the tables of results that were read."""
        self._combined: dict[tuple[str, ...], str] = {}
        self.uses = 0
        try:
            self._egraph = _make()
            _LIVE.add(self)
            self._define(*_PRELUDE)
        except BaseException as error:
            raise _engine_error(error) from error

    def end(self) -> None:
        """Discards egglog's e-graph, which only this thread may do: what still refers to this object, such as a traceback, may be left to
        the garbage collector, which runs in any thread."""
        del self._egraph

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
            f"(ruleset load_{symbol})",
            f"(constructor {symbol} ({'E ' * arity}{'i64' if payload else ''}) E)",
            f"(relation in_{symbol} (i64 {'i64 ' * (payload + arity)}))",
            f"(rule (({row})) ((union (Ref i) ({symbol} {refs}{p})) (set (key (Ref i)) i) (delete ({row}))) :ruleset load_{symbol})",
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
        self.declare_retiring(symbol, 2, payload)
        retired = " ".join(
            f"(delete (any_{symbol} {node} (Ref {first}) (Ref {second}){p}))" for first, second in (("a0", "a1"), ("a1", "a0"))
        )
        self._define(f"(rule ((in_retire_{symbol} a0 a1{p})) ({retired}) :ruleset load_retire_{symbol})")

    def declare_retiring(self, symbol: str, arity: int, payload: bool) -> None:
        """Allows retiring nodes of a declared symbol: nodes loaded under `retire_<symbol>` as `operands [payload]` no longer match."""
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
            f"(ruleset load_retire_{symbol})",
            f"(relation in_retire_{symbol} ({columns}))",
            f"(relation retired_{symbol} ({columns}))",
            f"(rule (({row})) (({retired}) (delete ({row})) (subsume ({symbol} {refs}{p}))) :ruleset load_retire_{symbol})",
            f"(rule (({retired})) ((delete ({symbol} {refs}{p})) (delete ({retired}))) :ruleset wipe)",
        )

    def add_query(self, query: Query, copy: int = 0) -> int:
        """Adds a query. Returns its number; idempotent. Each copy of a query finds all matches."""
        known = self._numbers.get((query, copy))
        if known is not None:
            return known
        form = (len(query.classes), len(query.payloads))
        found = _table(form)
        if form not in self._forms:
            columns = " ".join(f"c{i}" for i in range(sum(form)))
            self._define(
                f"(ruleset clear_{found})",
                f"(relation {found} (i64 {'E ' * form[0]}{'i64 ' * form[1]}))",
                f"(rule (({found} n {columns})) ((delete ({found} n {columns}))) :ruleset clear_{found})",
            )
        number = self._numbers[query, copy] = len(self._forms)
        self._forms.append(form)
        head = f"({found} {number} {' '.join((*query.classes, *query.payloads))})"
        self._define(
            f"(ruleset query_{number})",
            f'(rule ({" ".join(query.atoms)}) ({head}) :ruleset query_{number} :name "{number}")',
        )
        return number

    def wipe(self) -> None:
        """Deletes all nodes, and keeps the definitions, which `(push)` and `(pop)` would copy and drop: 25 ms for a model, against 1."""
        self.uses += 1
        try:
            self._flush()
            self._run("(run wipe 1)", "(run forget 1)")
        except BaseException as error:
            raise _engine_error(error) from error

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
            retired = [symbol for symbol in rows if symbol.startswith("retire_") and rows[symbol]]
            loaded = [table.removeprefix("in_") for table in tables if not table.startswith("in_retire_")]
            inputs = [_input(file.name, file.path) for file in files]
            self._run(*self._rulesets("load", retired), *self._rulesets("load", loaded), first=inputs)
        except BaseException as error:
            raise _engine_error(error) from error
        finally:
            for file in files:
                file.close()

    def step(self, queries: Sequence[int]) -> tuple[list[tuple[int, ...]], dict[int, list[tuple[int, ...]]]]:
        """Runs some queries once, on the tuples that are new to each. Returns the nodes whose e-class got a smaller key since the last
        call, as (id, key), and the matches of each query. Rows are sorted, so that results are deterministic."""
        forms = dict.fromkeys([self._forms[number] for number in queries])
        tables = list(map(_table, forms))
        matches: dict[int, list[tuple[int, ...]]] = {number: [] for number in queries}
        try:
            self._flush()
            self._run(*self._stale, "(run moved 1)", *(["(run orders 1)"] if queries else []), *self._rulesets("query", queries))
            self._stale = ["(run clear 1)", *self._rulesets("clear", tables)]
            functions = self._egraph.freeze().functions
            as_int, keys = self._egraph.value_to_i64, _Keys(self._egraph)
            moved = sorted([tuple(map(as_int, row.inputs)) for row in functions["was_moved"].rows])
            for (classes, _), table in zip(forms, tables, strict=True):
                for row in functions[table].rows:
                    number, *columns = row.inputs
                    # Keys are looked up here: key atoms in the queries would multiply the joins that egglog repeats whenever a key changes.
                    match = (*[keys[column] for column in columns[:classes]], *map(as_int, columns[classes:]))
                    if DELETED not in match:
                        matches[as_int(number)].append(match)
        except BaseException as error:
            raise _engine_error(error) from error
        for found in matches.values():
            found.sort()
        return moved, matches

    def _rulesets(self, kind: str, names: Iterable[object]) -> list[str]:
        """The command that runs the rulesets `<kind>_<name>` together, once; none without names."""
        wanted = tuple([f"{kind}_{name}" for name in names])
        if len(wanted) < 2:
            return [f"(run {name} 1)" for name in wanted]
        if wanted not in self._combined:
            self._combined[wanted] = f"together_{len(self._combined)}"
            self._define(f"(unstable-combined-ruleset {self._combined[wanted]} {' '.join(wanted)})")
            self._flush()
        return [f"(run {self._combined[wanted]} 1)"]

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


def _table(form: tuple[int, int]) -> str:
    """The table of matches with some numbers of e-classes and of integers."""
    return f"found_{form[0]}_{form[1]}"


class _Keys(dict[AnyValue, int]):
    """The keys of egglog's e-classes."""

    def __init__(self, egraph: "Bindings") -> None:
        self._egraph = egraph

    def __missing__(self, cls: AnyValue) -> int:
        key = self._egraph.lookup_function("key", [cls])
        found = self[cls] = DELETED if key is None else self._egraph.value_to_i64(key)
        return found


class EGraphs(threading.local):
    """The e-graph of a thread, with its definitions: defining queries takes longer than most saturations. Each thread has its own, since
    egglog's e-graphs must not leave their thread."""

    def __init__(self) -> None:
        self._free: EGraph | None = None

    @contextmanager
    def lend(self) -> Iterator[EGraph]:
        """Borrows an e-graph without nodes, which is new while another is borrowed. An e-graph that fails is not lent again. Raises
        RuntimeError in a process forked after egglog ran, which would wait forever for threads of the parent."""
        if _FORKED:
            raise RuntimeError(
                "rules cannot run in a process that was forked after they ran in its parent; start processes with spawn: "
                'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
            )
        egraph, self._free = self._free or EGraph(), None
        try:
            yield egraph
            if egraph.uses < USES:
                egraph.wipe()
                self._free = egraph
        finally:
            if self._free is not egraph:
                egraph.end()


_LIVE: Final[WeakSet[EGraph]] = WeakSet()
"""The e-graphs of all threads."""


_FORKED: Final[list[bool]] = []
"""Nonempty in a process that was forked after egglog was imported."""


def _in_child() -> None:
    """Keeps the e-graphs of the parent forever: egglog asks the parent's threads to discard one, and would wait for them."""
    if "egglog.bindings" in sys.modules:
        _FORKED.append(True)
    for graph in _LIVE:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(graph))


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
