"""The C compiler: the one that the environment variable CC names, the system's `cc`, or else the one in the package ziglang."""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from passat.ir.passat_error import PassatError

# None of these changes values: products and sums are not contracted, and nothing is regrouped.
_FLAGS: Final = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fwrapv",
    "-fvisibility=hidden",
)
_SECONDS: Final = 300.0


class NoCompilerError(PassatError, RuntimeError):
    """No C compiler was found."""

    exit_code = 1


class CompilerError(PassatError, RuntimeError):
    """The C compiler failed. The message has the first line of its errors."""

    exit_code = 1


def compiler(*, this_machine: bool = False) -> list[str]:
    """The command of the C compiler, for any processor of the kind, or for that of this machine. Raises NoCompilerError."""
    try:
        named, *options = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        raise NoCompilerError(f"the environment variable CC is not a command: {error}; correct or unset it") from None
    found = shutil.which(named)
    if found is not None:
        option = "-march" if platform.machine() in ("x86_64", "AMD64") else "-mcpu"
        return [found, *options, *([f"{option}=native"] if this_machine else [])]
    if named != "cc":
        raise NoCompilerError(f"the environment variable CC names the C compiler {named}, which is not found: correct or unset it")
    if find_spec("ziglang") is not None:
        processor = "native" if this_machine else "baseline"
        return [sys.executable, "-m", "ziglang", "cc", f"-mcpu={processor}", "-fno-sanitize=undefined"]
    raise NoCompilerError("kernels need a C compiler: install one as cc, or pip install 'passat[kernels]'")


def build_library(source: str, command: Sequence[str]) -> bytes:
    """A shared library from C, compiled in a temporary folder. Raises CompilerError."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernels.c"), "w", encoding="ascii") as file:
            file.write(source)
        try:
            done = subprocess.run(
                [*command, *_FLAGS, "kernels.c", "-o", "kernels.so", "-lm"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompilerError(f"the C compiler {command[0]} did not run: {error}") from error
        library = os.path.join(folder, "kernels.so")
        if done.returncode or not os.path.isfile(library):
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            first = next((line for line in lines if "error" in line), lines[0] if lines else f"exit code {done.returncode}")
            raise CompilerError(f"the C compiler {command[0]} failed: {first}")
        with open(library, "rb") as binary:
            return binary.read()
