"""Unified diffs of programs in which unchanged values keep their names.

Relay's text numbers temporaries, so removing one renames all later ones. Lines are first compared with anonymous names to find
corresponding lines. The temporaries of the second program then get the names of their counterparts, or new names. Constants are numbered in
common. The diff shows the text of the first program, and that of the second program with its names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from passat.ir.expr import Expr, Function, GlobalVar
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.tensor import Tensor
from passat.ir.text import pretty_print
from passat.ir.text.lexer import PLAIN_VARIABLE
from passat.ir.text.metadata import Metadata
from passat.ir.text.printer import ExprPrinter
from passat.passmgr.inspection.line_diff import align

CONTEXT: Final = 3
"""Number of context lines around a change."""

_STRING: Final = r'"(?:[^"\\\n]++|\\.)*+"'
_WORDS: Final = re.compile(rf"({_STRING}|%(?:\d+|{PLAIN_VARIABLE.pattern}|{_STRING}))")
_TYPES: Final = re.compile(rf"({_STRING})| /\* ty=(.*?) \*/")
_DEFINES: Final = re.compile(r"\s*(?:let )?")
_COLORS: Final = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m", "h": "\x1b[1m"}
_RESET: Final = "\x1b[0m"


class Section(NamedTuple):
    """The changes of a function (or of the type definitions, with an empty `name`): its lines, each with the prefix "-", "+" or " "."""

    name: str
    kind: str
    """"changed", "added" or "removed"."""
    lines: list[str]


def ir_diff(before: IRModule | Expr, after: IRModule | Expr, *, color: bool = False, context: int = CONTEXT) -> str:
    """Returns the unified diff of two modules, by function, or of two expressions; empty if they differ only in names of temporaries.

    A type comment on one side only is not a difference. `color` adds terminal escape sequences. Takes nearly linear time.

    >>> from passat.ir.text import parse
    >>> before = parse("def @main(%x: int8) { %0 = negative(%x); %1 = abs(%0); %2 = negative(%1); (%2, %1) }")
    >>> after = parse("def @main(%x: int8) { %0 = abs(%x); %1 = negative(%0); (%1, %0) }")
    >>> print(ir_diff(before, after))
    --- @main
    +++ @main
    @@ -1,6 +1,5 @@
     def @main(%x: int8) {
    -  %0 = negative(%x) /* ty=int8 */;
    -  %1 = abs(%0) /* ty=int8 */;
    +  %1 = abs(%x) /* ty=int8 */;
       %2 = negative(%1) /* ty=int8 */;
       (%2, %1)
     }
    """
    text = "\n".join(line for section in sections(before, after) for line in unified(section, context))
    return color_diff(text) if color else text


def sections(before: IRModule | Expr, after: IRModule | Expr) -> Iterator[Section]:
    """Yields the changed functions: those of the first module in order, then new ones.

    For two expressions, yields at most one section without a name.
    """
    if not isinstance(before, IRModule) or not isinstance(after, IRModule):
        if isinstance(before, IRModule) or isinstance(after, IRModule):
            raise TypeError("a module can only be compared with a module, and an expression with an expression")
        lines = _diff(before, after, None)
        if lines:
            yield Section("", "changed", lines)
        return
    if before.type_definitions != after.type_definitions:
        old, new = (_Text(_type_text(module), types=False) for module in (before, after))
        lines = _compare(old, new)
        if any(not line.startswith(" ") for line in lines):
            yield Section("", "changed", lines)
    old_functions, new_functions = ({var.name_hint: (var, func) for var, func in mod.functions.items()} for mod in (before, after))
    for name in {**old_functions, **new_functions}:
        was, is_ = old_functions.get(name), new_functions.get(name)
        if was is None or is_ is None:
            given = was or is_
            assert given is not None
            sign, kind = ("-", "removed") if is_ is None else ("+", "added")
            yield Section(name, kind, [sign + line for line in _lines_of(given[1], given[0], Metadata())])
        elif was[1] is not is_[1]:
            lines = _diff(was[1], is_[1], was[0])
            if lines:
                yield Section(name, "changed", lines)


def _type_text(module: IRModule) -> list[str]:
    return pretty_print(IRModule(type_definitions=module.type_definitions)).split("\n")


class _Constants(Metadata):
    """Common numbers for the constants of two texts: equal constants have equal numbers.

    Contents are compared only where the objects differ; constants in files are identified by their location.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alike: dict[tuple[object, ...], list[Tensor]] = {}
        self._seen: set[int] = set()
        self.second = False

    def refer(self, value: object) -> str:
        if not isinstance(value, Tensor) or id(value) in self._seen:
            return super().refer(value)
        self._seen.add(id(value))
        alike = self._alike.setdefault((value.dtype, value.shape), [])
        if self.second:
            twin = next((other for other in alike if _equal(other, value)), None)
            if twin is not None:
                self._numbers[id(value)] = super().refer(twin)
        else:
            alike.append(value)
        return super().refer(value)


def _equal(a: Tensor, b: Tensor) -> bool:
    in_file = a.key()[0] == "file" or b.key()[0] == "file"
    return a.key() == b.key() if in_file else a == b


def _diff(before: Expr, after: Expr, var: GlobalVar | None) -> list[str]:
    """The lines of both texts with their prefixes; empty if they are equal."""
    if before is after:
        return []
    constants = _Constants()
    old = _Text(_lines_of(before, var, constants))
    constants.second = True
    new = _Text(_lines_of(after, var, constants))
    lines = _compare(old, new)
    return lines if any(not line.startswith(" ") for line in lines) else []


def _lines_of(expr: Expr, var: GlobalVar | None, meta: Metadata) -> list[str]:
    if isinstance(expr, PrimFunc):
        body = expr.body if isinstance(expr.body, str) else repr(expr.body)
        return [*repr(expr).split("\n"), *body.split("\n")]
    printer = ExprPrinter(expr, meta, None)
    text = printer.expression() if var is None or not isinstance(expr, Function) else printer.definition(var)
    return text.rstrip("\n").split("\n")


class _Text:
    """The parsed lines of a text.

    `parts[i]` are the pieces of line i without its type comments, alternating between text and names or strings; `types[i]` are its type
    comments. `own` are the names that the text defines, and `defined[i]` is the one that line i defines, or empty.
    """

    def __init__(self, lines: Sequence[str], types: bool = True) -> None:
        self.lines = lines
        self.parts: list[list[str]] = []
        self.types: list[tuple[str, ...]] = []
        self.defined: list[str] = []
        for line in lines:
            found: tuple[str, ...] = ()
            bare = line
            if types and " /* ty=" in line:
                found = tuple(match[2] for match in _TYPES.finditer(line) if match[2] is not None)
                bare = _TYPES.sub(r"\1", line)
            parts = _WORDS.split(bare)
            self.parts.append(parts)
            self.types.append(found)
            self.defined.append(_defined(parts))
        self.own = {name for name in self.defined if name}

    def alike(self) -> list[str]:
        """The lines with anonymous names for all values that the text defines."""
        own = self.own
        return ["".join(["%" if part in own else part for part in parts]) for parts in self.parts]

    def operators(self) -> list[str]:
        """The beginnings of the lines, up to the first parenthesis, with anonymous names."""
        return ["".join(["%" if part.startswith("%") else part for part in parts]).partition("(")[0] for parts in self.parts]

    def by_content(self, numbers: dict[tuple[object, ...], int]) -> list[int]:
        """Value numbers of the lines, from their text and the numbers of the lines they use. `numbers` is shared by both texts."""
        own = self.own
        known: dict[str, int] = {}
        result = []
        for parts, name in zip(self.parts, self.defined, strict=True):
            key = tuple(known.get(part, -1) if part in own else part for part in parts)
            number = numbers.setdefault(key, len(numbers))
            if name:
                known[name] = number
            result.append(number)
        return result

    def renamed(self, i: int, names: Mapping[str, str]) -> str:
        """A line, including its types, with other names."""
        parts = _WORDS.split(self.lines[i])
        return "".join([names.get(part, part) for part in parts])


def _defined(parts: Sequence[str]) -> str:
    """The name that a line defines: `%3 = ...` or `let %y: int8 = ...`."""
    if len(parts) < 3 or not parts[1].startswith("%") or _DEFINES.fullmatch(parts[0]) is None:
        return ""
    behind = parts[2]
    return parts[1] if behind.startswith((" = ", ": ")) and (behind.startswith(" = ") or " = " in "".join(parts[2:])) else ""


def _compare(old: _Text, new: _Text) -> list[str]:
    """All lines, each with its prefix."""
    pairs = _pairs(old, new)
    names = _common_names(old, new, pairs)
    out: list[str] = []
    removed: list[str] = []
    added: list[str] = []
    done_i = done_j = 0
    for i, j in [*pairs, (len(old.lines), len(new.lines))]:
        removed += ("-" + line for line in old.lines[done_i:i])
        added += ("+" + new.renamed(k, names) for k in range(done_j, j))
        done_i, done_j = i + 1, j + 1
        if i == len(old.lines):
            break
        if _same(old, i, new, j, names):
            out += removed
            out += added
            removed, added = [], []
            out.append(" " + (new.renamed(j, names) if new.types[j] or not old.types[i] else old.lines[i]))
        else:
            removed.append("-" + old.lines[i])
            added.append("+" + new.renamed(j, names))
    return [*out, *removed, *added]


def _pairs(old: _Text, new: _Text) -> list[tuple[int, int]]:
    """Corresponding lines: first those that compute the same; between them those that look alike; between these those with the same
    operator."""
    numbers: dict[tuple[object, ...], int] = {}
    pairs = align(old.by_content(numbers), new.by_content(numbers))
    for a, b in ((old.alike(), new.alike()), (old.operators(), new.operators())):
        more: list[tuple[int, int]] = []
        done_i = done_j = 0
        for i, j in [*pairs, (len(a), len(b))]:
            if done_i < i and done_j < j:
                more += ((done_i + k, done_j + m) for k, m in align(a[done_i:i], b[done_j:j]))
            if i < len(a):
                more.append((i, j))
            done_i, done_j = i + 1, j + 1
        pairs = more
    return pairs


def _same(old: _Text, i: int, new: _Text, j: int, names: Mapping[str, str]) -> bool:
    types_differ = len(old.types[i]) == len(new.types[j]) and old.types[i] != new.types[j]
    return not types_differ and old.parts[i] == [names.get(part, part) for part in new.parts[j]]


def _common_names(old: _Text, new: _Text, pairs: Sequence[tuple[int, int]]) -> dict[str, str]:
    """New names for the values of the second text: those of their counterparts in the first text, or unused ones."""
    names = {new.defined[j]: old.defined[i] for i, j in pairs if new.defined[j] and old.defined[i]}
    taken = {part for parts in old.parts for part in parts[1::2] if part.startswith("%")}
    taken.update(part for parts in new.parts for part in parts[1::2] if part.startswith("%") and part not in new.own)
    next_number: dict[str, int] = {"%": 1 + max((int(name[1:]) for name in taken if name[1:].isdigit()), default=-1)}
    for name in new.defined:
        if not name or name in names:
            continue
        fresh = name
        stem = name.rstrip('0123456789"')
        while fresh in taken:
            number = next_number.get(stem, 1)
            next_number[stem] = number + 1
            fresh = f'{stem}{number}"' if name.endswith('"') else f"{stem}{number}"
        taken.add(fresh)
        names[name] = fresh
    return names


def unified(section: Section, context: int) -> Iterator[str]:
    """Formats a section as hunks with headers."""
    title = (
        f"@{section.name}" if section.name else "(the type definitions)" if section.lines[0][1:].startswith("type ") else "(the expression)"
    )
    yield f"--- {title if section.kind != 'added' else '(nothing)'}"
    yield f"+++ {title if section.kind != 'removed' else '(nothing)'}"
    hunks: list[list[int]] = []
    for i, line in enumerate(section.lines):
        if line.startswith(" "):
            continue
        begin, end = max(0, i - context), min(len(section.lines), i + 1 + context)
        if hunks and begin <= hunks[-1][1]:
            hunks[-1][1] = end
        else:
            hunks.append([begin, end])
    old = new = 1
    at = 0
    for begin, end in hunks:
        lines = section.lines[begin:end]
        minus = sum(not line.startswith("+") for line in lines)
        plus = sum(not line.startswith("-") for line in lines)
        old, new = old + begin - at, new + begin - at
        yield f"@@ -{_range(old, minus)} +{_range(new, plus)} @@"
        yield from lines
        old, new, at = old + minus, new + plus, end


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start if count else start - 1},{count}"


def color_diff(diff: str) -> str:
    """Adds terminal escape sequences to a diff: removed lines red, added ones green, hunk headers cyan, names bold."""
    lines = []
    for line in diff.split("\n"):
        color = _COLORS.get("h" if line.startswith(("--- ", "+++ ")) else line[:1])
        lines.append(f"{color}{line}{_RESET}" if color else line)
    return "\n".join(lines)
