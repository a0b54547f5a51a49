"""Printing programs: the pass `PrintIR`, TVM's printing instruments, LLVM-style printing before and after passes and of what they change,
and `DumpIR`, which writes the module to a file after every pass."""

import base64
import errno
import os
import re
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any as AnyValue
from typing import Final, Literal, TextIO, get_args

import numpy as np

from passat.ir.argument_checks import FOLDER
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.text import astext
from passat.ir.text.metadata import encode
from passat.ir.whole_file import write_whole
from passat.passmgr.context import PassContext
from passat.passmgr.inspection.ir_diff import CONTEXT, Section, color_diff, sections, unified
from passat.passmgr.instruments import PassInstrument, RunInstrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo, names_in
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass

INLINE_LIMIT: Final = 1 << 16
"""Maximum size in bytes of constants that are printed in full."""


def is_large(tensor: Tensor) -> bool:
    """Whether the storage of a constant exceeds the limit; splats are small."""
    return tensor.nbytes > INLINE_LIMIT and tensor.dtype != "string" and tensor.uniform() is None


def first_element(tensor: Tensor) -> dict[str, AnyValue]:
    """Encodes a constant for the metadata section as a splat of its first element."""
    first = np.asarray(tensor.numpy()[(0,) * len(tensor.shape)])
    return {"dtype": tensor.dtype, "shape": list(tensor.shape), "splat": base64.b64encode(first.tobytes()).decode()}


class Stripped:
    """Encodes constants, large ones as splats of their first element; `count` is the number of these."""

    def __init__(self) -> None:
        self.count = 0

    def form(self, tensor: Tensor) -> dict[str, AnyValue]:
        """Encodes a constant."""
        if not is_large(tensor):
            return encode(tensor)
        self.count += 1
        return first_element(tensor)


_WRITING: Final = threading.Lock()


def emit(text: str, file: TextIO | None) -> None:
    """Writes a text in one call, so that output of several threads does not mix; to the current stderr by default."""
    stream = sys.stderr if file is None else file
    with _WRITING:
        stream.write(text)
        stream.flush()


@register_pass("transform.PrintIR")
@dataclass(frozen=True, repr=False)
class PrintIR(ModulePass):
    """Prints the module to stderr, after `PrintIR(<header>):`. Non-scalar constants are only printed with `show_meta_data`."""

    header: str = ""
    show_meta_data: bool = False

    info = PassInfo(0, "PrintIR", preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Prints the module and returns it."""
        emit(f"PrintIR({self.header}):\n{mod.astext(self.show_meta_data).rstrip()}\n", None)
        return mod


class PrintBeforeAll(PassInstrument):
    """Prints `Before Running Pass: <info>` and the module to stdout before each pass, as in TVM."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the input module of the pass."""
        emit(f"Before Running Pass: {info}\n{mod}\n", sys.stdout)


class PrintAfterAll(PassInstrument):
    """Prints `After Running Pass: <info>` and the module to stdout after each pass, as in TVM."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the result of the pass."""
        emit(f"After Running Pass: {info}\n{mod}\n", sys.stdout)


class PassPrintingInstrument(PassInstrument):
    """Prints the module to stdout before and after the passes with the given exact names, as in TVM."""

    def __init__(self, print_before_pass_names: Iterable[str], print_after_pass_names: Iterable[str]) -> None:
        self.print_before_pass_names = list(print_before_pass_names)
        self.print_after_pass_names = list(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the input module of a selected pass."""
        if info.name in self.print_before_pass_names:
            emit(f"Print IR before: {info.name}\n{mod}\n\n\n", sys.stdout)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the result of a selected pass."""
        if info.name in self.print_after_pass_names:
            emit(f"Print IR after: {info.name}\n{mod}\n\n\n", sys.stdout)


class NameFilter:
    """Selects names by patterns with `*`, `?` and `[...]`; all names without patterns. `unused` are the patterns without a match so far.

    >>> chosen = NameFilter(["Fold*", "InferType"])
    >>> chosen("FoldConstant"), chosen("SimplifyExpr"), chosen.unused
    (True, False, ['InferType'])
    """

    def __init__(self, patterns: str | Iterable[str]) -> None:
        self.patterns = names_in((patterns,) if isinstance(patterns, str) else patterns, "names")
        self._used: set[str] = set()

    def __call__(self, name: str) -> bool:
        """Whether the name is selected."""
        fitting = [pattern for pattern in self.patterns if name == pattern or fnmatchcase(name, pattern)]
        self._used.update(fitting)
        return bool(fitting) or not self.patterns

    @property
    def unused(self) -> list[str]:
        """The patterns that have not matched any name."""
        return [pattern for pattern in self.patterns if pattern not in self._used]

    def of_pass(self, info: PassInfo) -> bool:
        """Whether a pass is selected. Pipelines only match their exact name, since their members are selected individually."""
        fits = self(info.name)
        return info.name in self.patterns if isinstance(info, PipelineInfo) else fits


class _PrintIR(PassInstrument):
    """Common base of `PrintIRBefore` and `PrintIRAfter`."""

    def __init__(self, names: str | Iterable[str] = (), *, file: TextIO | None = None) -> None:
        self.names = NameFilter(names)
        self._file = file

    def _print(self, when: str, mod: IRModule, info: PassInfo, how: str = "") -> None:
        if self.names.of_pass(info):
            emit(f"*** IR Dump {when} {info.name}{how} ***\n{mod}\n", self._file)


class PrintIRBefore(_PrintIR):
    """Prints the module before passes.

    `names` selects passes, all by default. Patterns such as `Fold*` are supported; pipelines need their exact name. `file` is stderr by
    default.
    """

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the input module of the pass."""
        self._print("Before", mod, info)


class PrintIRAfter(_PrintIR):
    """Prints the module after passes; the input module of a pass that raised.

    `names` selects passes, all by default. Patterns such as `Fold*` are supported; pipelines need their exact name. `file` is stderr by
    default.
    """

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the result of the pass."""
        self._print("After", mod, info)

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        """Prints the input module of the pass."""
        self._print("After", mod, info, f" failed ({type(error).__name__}); its input")


SUFFIX: Final = ".relay"
_OURS: Final = re.compile(rf"\d{{3,}}_[A-Za-z0-9_.+-]*{re.escape(SUFFIX)}")
_NAME_LIMIT: Final = 100


class DumpIR(PassInstrument):
    """Writes the module to `<dump_dir>/NNN_<pass>.relay` after every pass, numbered from 000, in text that `passat.ir.text.parse` reads.

    * The folder is created on first use. Raises FileExistsError on creation of the instrument if the folder contains an earlier dump; with
      `refresh`, removes the files of that dump, and no others, before the first write.
    * `only_changes` skips passes that returned the same functions, and pipelines, whose members are dumped.
    * `initial` also writes the module before the first pass of a context, as `NNN_input.relay`.
    * Without `show_meta_data`, non-scalar constants are omitted and the text cannot be parsed. Functions of other back ends become
      comments.
    * With `strip_constants`, large constants become splats of their first element, which a comment states: the text can be parsed, but
      computes something else.

    Files are written atomically. Raises OSError with the file name, and NotADirectoryError if `dump_dir` is a file.
    """

    def __init__(
        self,
        dump_dir: str | os.PathLike[str],
        refresh: bool = False,
        *,
        only_changes: bool = False,
        initial: bool = False,
        show_meta_data: bool = True,
        strip_constants: bool = False,
    ) -> None:
        FOLDER("dump_dir", dump_dir)
        self.dump_dir = Path(dump_dir)
        self._only_changes = only_changes
        self._initial = initial
        self._show_meta_data = show_meta_data
        self._strip_constants = strip_constants
        self._lock = threading.Lock()
        self._number = 0
        self._last: object = None
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", os.fspath(self.dump_dir))
        self._refresh = refresh
        if not refresh and self._earlier():
            raise FileExistsError(errno.EEXIST, "contains an earlier dump; empty it or use another folder", os.fspath(self.dump_dir))

    def _earlier(self) -> list[Path]:
        if not self.dump_dir.is_dir():
            return []
        return [path for path in sorted(self.dump_dir.iterdir()) if _OURS.fullmatch(path.name)]

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Writes the module before the first pass of a context, if requested."""
        with self._lock:
            first = self._last is None
            if first:
                self._last = dict(mod.functions)
            if first and self._initial:
                self._write(mod, "input")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Writes the module."""
        with self._lock:
            changed = mod.functions != self._last
            self._last = dict(mod.functions)
            if changed or not self._only_changes:
                self._write(mod, info.name)

    def exit_pass_ctx(self) -> None:
        """Releases the module. Numbering continues in a context entered later."""
        with self._lock:
            self._last = None

    def _write(self, mod: IRModule, name: str) -> None:
        safe = re.sub(r"[^A-Za-z0-9_.+-]+", "_", name)[:_NAME_LIMIT]
        path = self.dump_dir / f"{self._number:03d}_{safe}{SUFFIX}"
        self._number += 1
        text = self._text(mod).encode("utf-8", "surrogatepass")
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        if self._refresh:
            self._refresh = False
            for earlier in self._earlier():
                earlier.unlink(missing_ok=True)
        write_whole(path, text)

    def _text(self, mod: IRModule) -> str:
        if not self._strip_constants:
            return mod.astext(self._show_meta_data)
        stripped = Stripped()
        text = astext(mod, self._show_meta_data, form=stripped.form)
        note = f"// constants above {INLINE_LIMIT >> 10} KiB, {stripped.count} here, are replaced by their first element, repeated\n"
        return note + text if stripped.count else text


Mode = Literal["diff", "cdiff"]


@dataclass
class _Run:
    """A running pass, and the module at the time of the last report."""

    info: PassInfo
    seen: IRModule


class PrintIRChanged(RunInstrument[_Run]):
    """Prints the functions that a pass changed, like LLVM's `-print-changed`: as a diff or as a colored diff (`mode`).

    * `names` selects passes, all by default. Patterns such as `Fold*` are supported.
    * A pass without changes gets a line that says so, unless `quiet`. Inferred types and renumbered temporaries are not changes. Changes
      made by nested passes are reported for the nested passes only.
    * `context` is the number of context lines around changes. `file` is stderr by default.

    Raises ValueError for an unknown mode.
    """

    def __init__(
        self,
        names: str | Iterable[str] = (),
        *,
        mode: Mode = "diff",
        quiet: bool = False,
        context: int = CONTEXT,
        file: TextIO | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, not {mode!r}")
        super().__init__()
        self.names = NameFilter(names)
        self._mode = mode
        self._quiet = quiet
        self._context = context
        self._file = file

    def begin(self, mod: IRModule, info: PassInfo) -> _Run:
        """Records the module; reports what the enclosing pass has changed so far."""
        for around in self._running.open[-1:]:
            self._tell(around, mod, f"{around.info.name} up to {info.name}", quiet=True)
        return _Run(info, mod.shallow_copy())

    def end(self, run: _Run, mod: IRModule, info: PassInfo, error: BaseException | None) -> None:
        """Reports what the pass changed, unless it raised."""
        if error is None:
            self._tell(run, mod, info.name, quiet=self._quiet or isinstance(info, PipelineInfo))
            for around in self._running.open[-1:]:
                around.seen = run.seen

    def _tell(self, run: _Run, mod: IRModule, title: str, *, quiet: bool) -> None:
        before, run.seen = run.seen, mod.shallow_copy()
        if not self.names(run.info.name):
            return
        same = before.functions == mod.functions and before.type_definitions == mod.type_definitions
        found = [] if same else list(sections(before, mod))
        if found:
            on = ", ".join(_about(section) for section in found)
            text = "\n".join(line for section in found for line in unified(section, self._context))
            emit(f"*** IR Dump After {title} on {on} ***\n{color_diff(text) if self._mode == 'cdiff' else text}\n", self._file)
        elif not quiet:
            emit(f"*** IR Dump After {title} omitted because no change ***\n", self._file)


def _about(section: Section) -> str:
    name = f"@{section.name}" if section.name else "the type definitions"
    return name if section.kind == "changed" else f"{name} ({section.kind})"
