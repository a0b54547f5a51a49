"""The bridge to egglog, and the one file that imports it: constructors by TSV load, queries that only record, `freeze` to read.

Everything that goes in or out is an integer. A node has an id; the class of a node is known by the smallest id in it (`key`).
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
    "(relation in_bare (i64))",
    "(rule ((in_bare i)) ((set (key (Ref i)) i) (delete (in_bare i))) :ruleset load)",
    "(relation in_union (i64 i64))",
    "(rule ((in_union a b)) ((union (Ref a) (Ref b)) (delete (in_union a b))) :ruleset load)",
    "(relation was_moved (i64 i64))",
    "(rule ((= e (Ref i)) (= k (key e)) (< k i)) ((was_moved i k)) :ruleset moved)",
    "(rule ((was_moved i k)) ((delete (was_moved i k))) :ruleset clear)",
)


KEPT: Final = 16
"""A thread keeps so many e-graphs, of a few megabytes each; the one not used for longest goes first."""
USES: Final = 64
"""An e-graph is used so often: egglog keeps a report of everything that it ran, some 30 kB a saturation."""


class EngineError(PassatError, RuntimeError):
    """The engine failed. The e-graph is not to be used any more; the caller returns what it was given."""


class Query(NamedTuple):
    """A pattern to look for. `atoms` are egglog facts over the variables; a match is the keys of the classes that `classes` are bound to,
    followed by the integers that `payloads` are bound to."""

    name: str
    atoms: tuple[str, ...]
    classes: tuple[str, ...]
    payloads: tuple[str, ...]


class EGraph:
    """An e-graph over nodes of declared symbols. Use it in the thread that made it. After an EngineError it is dead."""

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
        """Declares a symbol of `arity` operands, with an integer payload or without; declaring again does nothing."""
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
        )

    def declare_commuting(self, symbol: str, payload: bool) -> None:
        """Lets queries see a declared symbol of two operands in either order: as `(any_<symbol> e a b [p])`."""
        if f"any_{symbol}" in self._declared:
            return
        self._declared.add(f"any_{symbol}")
        p, sort = (" p", " i64") if payload else ("", "")
        node = f"({symbol} (Ref a0) (Ref a1){p})"
        self._define(
            f"(relation any_{symbol} (E E E{sort}))",
            f"(rule ((= e ({symbol} a b{p}))) ((any_{symbol} e a b{p}) (any_{symbol} e b a{p})) :ruleset orders)",
        )
        self._define_retiring(symbol, 2, payload)
        retired = " ".join(
            f"(delete (any_{symbol} {node} (Ref {first}) (Ref {second}){p}))" for first, second in (("a0", "a1"), ("a1", "a0"))
        )
        self._define(f"(rule ((in_retire_{symbol} a0 a1{p})) ({retired}) :ruleset retire)")

    def declare_retiring(self, symbol: str, arity: int, payload: bool) -> None:
        """Lets nodes of a declared symbol be retired: loaded under `retire_<symbol>` as `operands [payload]`, they match no more."""
        self._define_retiring(symbol, arity, payload)

    def _define_retiring(self, symbol: str, arity: int, payload: bool) -> None:
        if f"retire_{symbol}" in self._declared:
            return
        self._declared.add(f"retire_{symbol}")
        operands = " ".join(f"a{i}" for i in range(arity))
        refs = " ".join(f"(Ref a{i})" for i in range(arity))
        p = " p" if payload else ""
        row = f"in_retire_{symbol} {operands}{p}"
        self._define(
            f"(relation in_retire_{symbol} ({'i64 ' * (payload + arity)}))",
            f"(rule (({row})) ((subsume ({symbol} {refs}{p})) (delete ({row}))) :ruleset retire)",
        )

    def add_query(self, query: Query, stage: int = 0) -> int:
        """Adds a query, to be matched against all that is there and all that comes, in steps of its stage; returns its number. Adding again
        does nothing.

        Matches are recorded as classes, and their keys looked up by one rule for all queries of a form: atoms for keys in the queries
        themselves would multiply what egglog has to join again whenever a key changes.
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

    def begin(self) -> None:
        """Remembers the definitions made so far, with no nodes yet, for `end` to go back to."""
        self.uses += 1
        self._guarded("(push)")

    def end(self) -> None:
        """Drops all nodes, and what was defined since `begin`."""
        self._guarded("(pop)")

    def load(self, rows: Mapping[str, Sequence[str]], unions: Iterable[tuple[int, int]] = ()) -> None:
        """Adds nodes and unites classes, then restores congruence. `rows` holds per symbol lines `id operands [payload]`, tab separated;
        under `bare`, ids of nodes that queries see only as operands; under `retire_<symbol>`, nodes to retire."""
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
        """Runs every query of some stages once on what is new to it. Returns the merges (see `merges`) and the new matches of each query.
        Rows come sorted, so that equal e-graphs give equal answers."""
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
        """The nodes whose class has got a smaller key since this was last asked, as (id, key), without matching anything."""
        return self._read("(run moved 1)", forms=())[0]

    def _read(self, *schedule: str, forms: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, ...]], list[list[tuple[int, ...]]]]:
        try:
            self._flush()
            self._run("(run clear 1)", *schedule)  # of what was read the last time
            functions = self._egraph.freeze().functions
            value = self._egraph.value_to_i64
            moved = sorted([tuple(map(value, row.inputs)) for row in functions["was_moved"].rows])
            tables = [[tuple(map(value, row.inputs)) for row in functions[f"match_{c}_{p}"].rows] for c, p in forms]
        except BaseException as error:
            raise _engine_error(error) from error
        return moved, tables

    def _guarded(self, text: str) -> None:
        try:
            self._flush()
            self._run(text)
        except BaseException as error:
            raise _engine_error(error) from error

    def _define(self, *texts: str) -> None:
        """Parses definitions one by one (parsing them as one text is many times slower); they run together before the next use."""
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
        """Runs commands, after others that are no text, in one call: each costs some 20 us."""
        commands = [*first]
        for text in texts:
            if text not in self._parsed:
                self._parsed[text] = self._egraph.parse_program(text)
            commands += self._parsed[text]
        self._egraph.run_program(*commands)


class EGraphs(threading.local):
    """E-graphs with their definitions, for the next who asks with the same key: defining takes longer than most saturations. Each
    thread has its own, since egglog's may not leave the thread that made them."""

    def __init__(self) -> None:
        self._free: dict[Hashable, EGraph] = {}

    @contextmanager
    def lend(self, key: Hashable) -> Iterator[EGraph]:
        """An e-graph without nodes, new or with the definitions it got under the key. The borrower calls `begin` before it adds nodes.
        One that was in use when something failed is not lent again. Raises RuntimeError in a process that was forked from one in which
        egglog was at work: it would wait forever for threads that only the parent has."""
        if _FORKED:
            raise RuntimeError(
                "rules cannot run in a process that was forked from one in which they have run; start processes by spawn: "
                'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
            )
        egraph = self._free.pop(key, None) or EGraph()
        yield egraph
        if egraph.uses < USES:
            egraph.end()
            self._free[key] = egraph
        if len(self._free) > KEPT:
            del self._free[next(iter(self._free))]


_FORKED: Final[list[bool]] = []
"""Not empty in a process that was forked after egglog was imported."""


def _in_child() -> None:
    if "egglog.bindings" in sys.modules:
        _FORKED.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _make() -> "Bindings":
    """An e-graph of egglog's, which is imported here: many runs do without."""
    made: Bindings = _bindings().EGraph()
    return made


def _input(table: str, path: str) -> "Input":
    bindings = _bindings()
    made: Input = bindings.Input(bindings.RustSpan("passat", 0, 0), table, path)
    return made


_IMPORTING: Final = threading.Lock()


def _bindings() -> ModuleType:
    """egglog's bindings by themselves. Its package has a language and a formatter besides, and takes fifteen times as long to import; who
    imports that later gets these bindings in it, for there can be no others in the process."""
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
    """A file that egglog reads a table from: in memory on Linux, a temporary file elsewhere."""

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
    """egglog's panics derive from BaseException and are failures like its ordinary errors; interrupts and the like pass through."""
    if type(error).__name__ in ("EggSmolError", "PanicException"):
        return EngineError(f"egglog failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return error
