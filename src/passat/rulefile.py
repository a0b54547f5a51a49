"""Reads rule files: Python files that define `RuleSet` classes, register passes, or both."""

import ast
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, TypeAlias

from passat.ir.argument_checks import is_sequence
from passat.ir.bounded_read import read_bounded
from passat.ir.long_words import short_repr, text_of
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.planning.plan import Reason, Step
from passat.passmgr.registry import PassEntry, collect_registrations, get_entry, name_and_options, own_name
from passat.rules import RuleError, RuleSet, guards, range_guards
from passat.rules import __all__ as rule_names
from passat.rules.rule import Rule
from passat.rules.rule_pass import RulePass

PathLike: TypeAlias = str | os.PathLike[str]
RulesLike: TypeAlias = PathLike | type[RuleSet] | Sequence[PathLike | type[RuleSet]]
"""Rule sets, and paths of rule files."""
_NUMBERS: Final = itertools.count()
_PREFIX: Final = "passat_rule_file_"
"""The beginning of the names of the modules of rule files."""
_LIMIT: Final = 1 << 24
"""Maximum size of a rule file in bytes."""
_REGISTERED: Final[dict[str, set[str]]] = {}
"""The keys of the passes that each file registered, by real path."""


class RuleFileError(PassatError, ValueError):
    """An unusable rule file. The message names the file, the line and the reason."""

    exit_code = 1


def read_rules(rules: RulesLike) -> tuple[list[type[RuleSet]], list[PathLike]]:
    """The rule sets, including those of rule files, and the distinct paths of the files. Raises RuleFileError, and TypeError for anything
    else."""
    if isinstance(rules, (str, os.PathLike, type)):
        rules = [rules]
    elif not is_sequence(rules):
        raise TypeError(f"rules must be RuleSet classes or paths of rule files, in a list, not {short_repr(rules)}")
    sets: list[type[RuleSet]] = []
    files: dict[str, PathLike] = {}
    for one in rules:
        if not isinstance(one, (str, os.PathLike)):
            sets.append(one)  # invalid ones are rejected when the pipeline is made
        elif (place := os.path.realpath(one)) not in files:
            files[place] = one
            sets += load_rules(one)
    return sets, list(files.values())


def load_rules(path: str | os.PathLike[str]) -> list[type[RuleSet]]:
    """The rule sets that a file defines and its variables hold, also in collections, in definition order, without base classes that have
    no rules, and without forms of a set (`of_kind`, `only`, `when`), which are for passes.

    The file is imported under a unique name, so it may be called `rules.py`, and may import modules next to it. A file that is loaded again
    may register its passes again. Raises RuleFileError if the file cannot be imported, has an invalid rule, or defines no rule set, pass or
    operator.
    """
    file = Path(os.fsdecode(path))
    registered = _REGISTERED.setdefault(os.path.realpath(file), set())
    keys: set[str] = set()
    try:
        with collect_registrations(frozenset(registered)) as keys:
            module, source = _run(file)
    finally:
        registered |= keys
    found = [
        part
        for value in vars(module).values()
        for part in _parts(value)
        if isinstance(part, type) and issubclass(part, RuleSet) and part.__module__ == module.__name__
    ]
    sets = [rules for rules in dict.fromkeys(found) if rules.rules and rules.base is rules]
    _check_none_outside(file, module, found)
    names: dict[str, type[RuleSet]] = {}
    for rules in sets:
        if names.setdefault(rules.__name__, rules) is not rules:
            way_out = "type(NAME, (RuleSet,), RULES) makes one of another name"
            raise RuleFileError(f"{file} has two sets of the name {rules.__name__}: {way_out}")
        lines = [node.lineno for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == rules.__name__]
        if len(lines) > 1:
            raise RuleFileError(f"{file}, line {lines[-1]}: the class {rules.__name__} is defined twice, first in line {lines[0]}")
    declares = any(isinstance(value, Op) and value.relation.__module__ == module.__name__ for value in vars(module).values())
    if not sets and not keys and not declares:
        raise RuleFileError(
            f"{file} defines no rules and registers no passes: a rule file contains classes derived from passat.rules.RuleSet, each rule "
            "an attribute of one, passes with @register_pass(NAME), or operators with @define_op; rule sets that it imports do not count"
        )
    return sets


def _parts(value: object) -> Iterator[object]:
    """A value, or the parts of a collection and of those within it."""
    stack, seen = [value], set()
    while stack:
        part = stack.pop()
        if not isinstance(part, (dict, list, tuple, set, frozenset)):
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            stack += reversed(list(part.values() if isinstance(part, dict) else part))


def _check_none_outside(file: Path, module: ModuleType, sets: Iterable[type[RuleSet]]) -> None:
    """Raises RuleFileError for a rule of the file that no set has, which would never run. A set may take some rules of a collection."""
    held = {(id(rule.lhs), id(rule.rhs)) for rules in sets for rule in rules.rules}  # further guards make another rule
    for name, value in vars(module).items():
        rules = [part for part in _parts(value) if isinstance(part, Rule)]
        own = next((rule for rule in rules if rule.source.rpartition(":")[0] == file.name), None)
        if own is not None and not any((id(rule.lhs), id(rule.rhs)) in held for rule in rules):
            raise RuleFileError(
                f"{file}, line {own.source.rpartition(':')[2]}: {name} has the rule [{own!r}], which no set has, so "
                "it would never run: make it an attribute of a class derived from passat.rules.RuleSet"
            )


def file_of(rules: type[RuleSet]) -> str | None:
    """The absolute path of the file that defines a rule set; None if it was not a regular file."""
    file = getattr(sys.modules.get(rules.__module__), "__file__", None)
    return None if file is None else os.path.abspath(file)


def file_to_read(rules: type[RuleSet]) -> str | None:
    """The rule file that defines a set, which other processes read; None for sets that they import. Raises RuleFileError for a pipe, which
    cannot be read twice."""
    if not rules.__module__.startswith(_PREFIX):
        return None
    file = file_of(rules)
    if file is None:
        raise RuleFileError(f"the set {rules.__name__} does not come from a regular file, which other processes have to read; write a file")
    return file


def registered_passes(path: str | os.PathLike[str]) -> list[str]:
    """The names of the passes that a rule file registered, sorted."""
    return sorted(get_entry(key).name for key in _REGISTERED.get(os.path.realpath(path), ()))


def files_registering(names: Collection[str]) -> list[str]:
    """The rule files that registered the passes of these names; the last one if there are several."""
    last = {own_name(key): file for file, keys in _REGISTERED.items() for key in keys}
    return list(dict.fromkeys(last[name] for name in sorted(names) if name in last))


def idle_passes(files: Iterable[str | os.PathLike[str]], steps: Iterable[Step]) -> list[str]:
    """A sentence for each rule file whose registered passes are not steps of the plan, and for each of them whose level is above that of
    the context. Of several, those without a place may be idle. Passes of rules have a sentence for each rule."""
    planned = {name: step for step in steps for name in (step.name, name_and_options(step.pass_)[0])}
    sentences = []
    for file in files:
        names = registered_passes(file)
        for name in names:
            step = planned.get(name)
            if step is not None and step.reason is Reason.LEVEL and not isinstance(step.pass_, RulePass):
                way_out = "a higher level, or requiring it by name, enables it"
                sentences.append(f"{os.fsdecode(file)} registers the pass {name}, which does not run: {step.why}; {way_out}")
        idle = [name for name in names if name not in planned]
        if len(idle) < len(names):
            idle = [name for name in idle if _has_place(get_entry(name))]
        if idle:
            what = f"the pass {idle[0]}, which does" if len(idle) == 1 else f"the passes {', '.join(idle)}, which do"
            how = f"a pipeline has to name {'it' if len(idle) == 1 else 'them'}"
            if all(get_entry(name).info for name in idle):  # those with required options are not inserted
                how += ", or all passes of its `after` and `before`"
            sentences.append(f"{os.fsdecode(file)} registers {what} not run: {how}")
    return sentences


def _has_place(entry: PassEntry) -> bool:
    info = entry.info or getattr(entry.factory, "info", None)
    return isinstance(info, PassInfo) and bool(info.after or info.before)


def _run(file: Path) -> tuple[ModuleType, bytes]:
    """The module of a file, and the file's content: a pipe can be read only once."""
    if file.is_dir():
        raise RuleFileError(f"{file} is a folder, not a rule file")
    # A unique name: two rule files of the same name are two modules.
    name = f"{_PREFIX}{next(_NUMBERS)}_{''.join(c if c.isalnum() else '_' for c in file.stem)}"
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(file))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    shown = str(file)
    if file.is_file():
        module.__file__ = shown
    else:  # a traceback that reads the source would block on a pipe
        shown = f"<{file}>"
    beside = str(file.resolve().parent)
    sys.modules[name] = module
    sys.path.append(beside)  # at the end: installed packages come first
    try:
        source = read_bounded(file, _LIMIT)
        exec(_compiled(source, shown), vars(module))
    except OSError as error:
        del sys.modules[name]
        raise RuleFileError(f"{file} cannot be read: {error.strerror or error}") from error
    except SyntaxError as error:
        del sys.modules[name]
        if not error.lineno:  # not text
            raise RuleFileError(f"{file} is not a Python file: {error.msg}; give a rule file") from error
        raise RuleFileError(f"{error.filename or file}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise RuleFileError(f"{file}{_line(error, shown)}: {_beside(error, beside, shown)}{_reason(error)}") from error
    finally:
        sys.path.remove(beside)
    return module, source


def _compiled(source: bytes, name: str) -> CodeType:
    try:
        return compile(source, name, "exec")
    except ValueError as error:  # a null byte, before Python 3.11.4
        raise SyntaxError(str(error)) from error


def _reason(error: BaseException) -> str:
    """The reason as a sentence."""
    kind = f"{type(error).__name__}: " if str(error).strip() and not isinstance(error, RuleError) else ""
    return kind + text_of(error) + (_import_of(error.name) if type(error) is NameError else "")


def _import_of(name: str | None) -> str:
    """The import of a name of the rule language that a file lacks, as of the guards that `passat rules check` proposes."""
    if name in rule_names:
        return f"; add: from passat.rules import {name}"
    for module in (guards, range_guards):
        if name and getattr(vars(module).get(name), "__module__", None) == module.__name__:
            return f"; add: from {module.__name__} import {name}"
    return ""


def _beside(error: BaseException, folder: str, file: str) -> str:
    """The innermost line of another file of the folder, which the rule file imports, if the error comes from it."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if each.filename == file or os.path.dirname(each.filename) == folder
    ]
    inner = frames[-1] if frames else None
    return "" if inner is None or inner.filename == file else f"{os.path.basename(inner.filename)}, line {inner.lineno}: "


def _line(error: BaseException, file: str) -> str:
    """The line of the file that an error comes from: that of the rule, or the innermost one on the stack."""
    if isinstance(error, RuleError) and error.source:
        name, _, line = error.source.rpartition(":")
        if name == os.path.basename(file):
            return f", line {line}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""
