"""Creates kernels for a model, verifies and times them, and keeps them if the whole model gets faster."""

import contextlib
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.choose import MARGIN, NothingToTimeError, race
from passat.ir.counting import counted, seconds
from passat.kernel_library import HASH, MADE_FOR, hash_of, this_platform
from passat.profiling import node_times
from passat.runner import CustomOpsError, Runner, VerifyError, custom_operators, sentence_of
from passat.runtime.kernels import CompilerError, Kernels, NoCompilerError, build_library, compiler, fuse, library_source
from passat.runtime.kernels.culprits import compiling, working
from passat.runtime.kernels.fusing import Key, key
from passat.session import usable_cores
from passat.verify import Comparing, Reference, VerifyReport

if TYPE_CHECKING:
    from onnx import ModelProto

NOTHING: Final = "kernels: nothing to gain, "


def settings_of_threads() -> tuple[int, ...]:
    """The numbers of threads for which kernels must be faster: one, and all (0), as sessions have by default."""
    return (1, 0) if usable_cores() > 1 else (1,)


class WithKernels(NamedTuple):
    """A model with kernels and its library, if that is faster; what happened in one line; the comparison with the model without kernels."""

    model: "ModelProto | None"
    library: bytes
    said: str
    verification: VerifyReport | None = None


class _Built(NamedTuple):
    """The library of a model with kernels, and the comparison with the model without them."""

    library: bytes
    verification: VerifyReport


def with_kernels(model: "ModelProto", nodes: int, folder: str | None, how: Comparing) -> WithKernels:
    """Adds kernels for nodes that ONNX Runtime leaves unfused, if the whole model gets faster. Leaves out kernels that are not faster than
    the nodes they replace.

    Raises VerifyError, and NoCompilerError if there are such nodes.
    """
    if hash_of(model) is not None:
        return _without("kernels: none were made: the model has kernels already; optimize the original model with --kernels")
    dropped: list[str] = []
    try:
        before = left_by_runtime(model, folder)
        without: set[tuple[int, ...]] = set()
        slow: Set[tuple[int, ...]] | None = None
        while (kernels := fuse(model, before.keys(), without)) is not None:
            try:
                with _made(model, kernels, compiler(), before, folder, how) as built:
                    slow = slower_groups(model, kernels, folder, how) if slow is None else set()
                    if not slow:
                        return _timed(model, kernels, built, nodes, folder, how, dropped)
                    without |= slow
            except _FewerError as error:
                without |= error.groups
                dropped.append(str(error))
        if dropped:
            return _without(f"kernels: none were made: {'; '.join(dropped)}")
        if slow is None:
            return _without(f"{NOTHING}ONNX Runtime leaves no chains of elementwise operators and reductions")
        rivals = f"each of the {len(without)} kernels" if len(without) > 1 else "the only kernel"
        return _without(f"{NOTHING}ONNX Runtime is as fast as {rivals}")
    except (VerifyError, NoCompilerError):
        raise
    except _UnusableError as error:
        return _without(str(error))
    except (CompilerError, CustomOpsError, NothingToTimeError) as error:
        return _without(f"kernels: none were made: {error}")
    except Exception as error:  # ONNX Runtime's errors have no common base class
        return _without(f"kernels: none were made: {sentence_of(error)}")


class _UnusableError(Exception):
    """Kernels that a model cannot have. The message says why."""


class _FewerError(Exception):
    """Kernels of which a model cannot have some. The message says why."""

    def __init__(self, why: str, kernels: Kernels, bad: Sequence[str]) -> None:
        super().__init__(f"{len(bad)} of {len(kernels.kernels)} kernels dropped, {why}" if kernels.kernels[1:] else why)
        self.groups = kernels.groups_of(bad or [kernel.name for kernel in kernels.kernels])


@contextlib.contextmanager
def _made(
    model: "ModelProto", kernels: Kernels, command: Sequence[str], before: Counter[Key], folder: str | None, how: Comparing
) -> Iterator[_Built]:
    """Builds the kernel library, registers it with the sessions of this context, and writes its hash in the metadata. Raises _FewerError if
    kernels do not compile, prevent ONNX Runtime's fusions or change results, and _UnusableError if the results cannot be compared."""
    try:
        library = build_library(library_source(kernels.kernels, kernels.domain), command)
    except CompilerError as error:
        good = compiling(kernels.kernels, kernels.domain, command)
        raise _FewerError(str(error), kernels, [kernel.name for kernel in kernels.kernels if kernel not in good]) from error
    changed = kernels.model
    for name, value in ((HASH, hashlib.sha256(library).hexdigest()), (MADE_FOR, this_platform())):
        entry = changed.metadata_props.add()
        entry.key, entry.value = name, value
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:  # Windows keeps libraries that are loaded
        path = os.path.join(temporary, "model.kernels.so")
        Path(path).write_bytes(library)
        with custom_operators([path]):
            lost = fusions(before) - fusions(left_by_runtime(changed, folder))
            if lost:
                bad = _bad(kernels, lambda some: not fusions(before) - fusions(left_by_runtime(kernels.model_with(some), folder)))
                raise _FewerError(f"since ONNX Runtime would not create {', '.join(sorted(lost))}", kernels, bad)
            reference = Reference(model, how, folder=folder)
            found = reference.check(changed)
            if found.mismatch:
                bad = _bad(kernels, lambda some: reference.check(kernels.model_with(some)).equal is True)
                raise _FewerError(f"since the results would differ from those of the model: {found.mismatch}", kernels, bad)
            if not found.equal:
                raise _UnusableError(f"kernels: none were kept: the comparison with the model failed: {found.skipped}")
            yield _Built(library, found)


def _bad(kernels: Kernels, works: Callable[[list[str]], bool]) -> list[str]:
    """The kernels with which a model does not work, of those with which it does not together."""
    names = [kernel.name for kernel in kernels.kernels]
    good = working(names, lambda kept, more: works([*kept, *more]))
    return [name for name in names if name not in good]


def _timed(
    model: "ModelProto", kernels: Kernels, built: _Built, nodes: int, folder: str | None, how: Comparing, dropped: Sequence[str]
) -> WithKernels:
    made = len(kernels.groups)
    count = f"{counted(kernels.nodes, 'node')} became {counted(made, 'kernel')}"
    notes = "".join(f"; {why}" for why in dropped)
    gains = []
    for threads in settings_of_threads():
        where = f"with {usable_cores()} threads" if threads != 1 else "on one thread"
        (given, own), best = race(model, nodes, [("with kernels", kernels.model)], folder, how, threads)
        if own.failed:
            return _without(f"kernels: none were kept: {own.failed}")
        if best is None:
            times = f"the model takes {seconds(given.seconds)} {where}, and {seconds(own.seconds)} with kernels"
            unsure = own.seconds < given.seconds * (1 - MARGIN)
            why = "kernels: none were kept, since the times vary too much to be sure of a gain: " if unsure else NOTHING
            return _without(why + times + notes)
        gains.append(f"{given.seconds / own.seconds:.2f} times as fast {where}")
    said = f"kernels: the model is {' and '.join(gains)} ({count}{notes})"
    return WithKernels(kernels.model, built.library, said, built.verification)


def slower_groups(model: "ModelProto", kernels: Kernels, folder: str | None, how: Comparing) -> Set[tuple[int, ...]]:
    """The groups of nodes that are not faster as kernels, on one thread or with all, by ONNX Runtime's times of nodes in both models,
    interleaved."""
    names = {tuple(group.nodes): [f"node {number}" for number in group.nodes] for group in kernels.groups}
    makers = {output: number for number, node in enumerate(model.graph.node) for output in node.output if output}
    both = []
    for proto in (model, kernels.model):
        copy = type(model)()
        copy.CopyFrom(proto)
        for node in copy.graph.node:
            node.name = f"node {max(makers.get(output, -1) for output in node.output)}"
        both.append(copy)
    of_kernel = {}
    for node in both[1].graph.node:
        if node.domain == kernels.domain:
            of_kernel[makers[node.output[0]]] = node.name
    slow = set()
    for threads in settings_of_threads():
        before, after = node_times(both, folder, how, threads)
        for group, parts in names.items():
            kernel = next(of_kernel[number] for number in group if number in of_kernel)
            known = [before[name] for name in parts if name in before]
            if len(known) == len(parts) and kernel in after and after[kernel] > sum(known) * (1 - MARGIN):
                slow.add(group)
    return slow


def _without(said: str) -> WithKernels:
    return WithKernels(None, b"", said)


def left_by_runtime(model: "ModelProto", folder: str | None) -> Counter[Key]:
    """The nodes after ONNX Runtime's own fusions, those of its blocked layouts included."""
    from passat.ir.onnx.files import in_memory

    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "fused.onnx")
        Runner(model, folder=folder, threads=1, optimize="all", apart=True, written=path)
        return Counter(key(node) for node in in_memory(path).graph.node)


def fusions(nodes: Counter[Key]) -> Counter[str]:
    """ONNX Runtime's own operators, which its fusions create, except for conversions of layouts."""
    found: Counter[str] = Counter()
    for (domain, kind, _, _), count in nodes.items():
        if domain and not domain.startswith(HASH) and kind not in ("ReorderInput", "ReorderOutput"):
            found[kind] += count
    return found
