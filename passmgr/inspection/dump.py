"""`DumpIR`: the module as a file after every pass."""

import errno
import os
import re
import threading
from pathlib import Path
from typing import Final

from passat.ir.module import IRModule
from passat.ir.text import astext
from passat.ir.whole_file import write_whole
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.large_constants import INLINE_LIMIT, Stripped
from passat.passmgr.pass_info import PassInfo

SUFFIX: Final = ".relay"
_OURS: Final = re.compile(rf"\d{{3,}}_[A-Za-z0-9_.+-]*{re.escape(SUFFIX)}")
_NAME_LIMIT: Final = 100


class DumpIR(PassInstrument):
    """Writes the module to `<dump_dir>/NNN_<pass>.relay` after every pass, numbered from 000, in text that `passat.ir.text.parse` reads.

    * The folder is made when it is needed. Where it holds the files of an earlier dump, FileExistsError is raised when the instrument is
      made; with `refresh` these files, and no others, are removed before the first is written.
    * `only_changes` leaves out the passes that returned the functions that they got, and pipelines, whose members have told all.
    * `initial` writes the module before the first pass of a context too, as `NNN_input.relay`.
    * Without `show_meta_data` constants that are no scalars are left out, and such a text cannot be read back. Functions of other back
      ends stand there as comments.

    * With `strip_constants` large ones are their first element, repeated, and a comment says so: the text can be read back, but does not
      compute the same.

    A file appears whole or not at all. Raises OSError, which names the file; NotADirectoryError where `dump_dir` is one.
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
        self.dump_dir = Path(dump_dir)
        self._only_changes = only_changes
        self._initial = initial
        self._show_meta_data = show_meta_data
        self._strip_constants = strip_constants
        self._lock = threading.Lock()
        self._number = 0
        self._last: object = None
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is no folder to dump to", os.fspath(self.dump_dir))
        self._refresh = refresh
        if not refresh and self._earlier():
            raise FileExistsError(
                errno.EEXIST, "holds the files of an earlier dump; empty it, or name another folder", os.fspath(self.dump_dir)
            )

    def _earlier(self) -> list[Path]:
        if not self.dump_dir.is_dir():
            return []
        return [path for path in sorted(self.dump_dir.iterdir()) if _OURS.fullmatch(path.name)]

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Writes the module before the first pass of a context, where that is wanted."""
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
        """Forgets the module; a context entered later goes on counting."""
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
        note = f"// of constants above {INLINE_LIMIT >> 10} KiB, here {stripped.count}, only the first element is kept, and repeated\n"
        return note + text if stripped.count else text
