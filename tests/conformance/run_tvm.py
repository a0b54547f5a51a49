"""Runs TVM's own tests of Relay, from a checkout of TVM, against Passat: `python -m tests.conformance.run_tvm CHECKOUT`.

    git clone --depth 1 --branch v0.18.0 https://github.com/apache/tvm
    python -m tests.conformance.run_tvm tvm

The names of `tvm` are Passat's (`tvm_names`), and nothing else is changed. Each file runs in a separate process, with limits on memory and
time.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.conformance.reasons import PAGE, contradictions
from tests.conformance.topi_references import CHECKOUT

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "pass manager": ("pass_manager", "pass_instrument"),
    "passes": (
        *("pass_fold_constant", "pass_eliminate_common_subexpr", "pass_dead_code_elimination", "pass_simplify_expr"),
        *("pass_simplify_inference", "pass_fold_scale_axis", "pass_combine_parallel_conv2d", "pass_combine_parallel_dense"),
        *("pass_combine_parallel_batch_matmul", "pass_canonicalize_cast", "pass_fast_math", "op_fast_math"),
    ),
    "language and text": (
        *("ir_parser", "ir_text_printer", "ir_nodes", "ir_bind", "ir_well_formed", "ir_structural_equal_hash", "ir_module", "ir_op"),
        *("expr_functor", "type_functor", "type_infer", "type_solver", "typecall", "dataflow_pattern", "backend_interpreter"),
        *("pass_to_a_normal_form", "pass_vars", "call_graph", "pass_check_kind", "pass_unmatched_cases", "recast", "analysis_feature"),
        *("analysis_basic_block_normal_form", "const", "json_compact", "debug", "executor"),
    ),
    "running": (
        *("backend_compile_engine", "backend_graph_runtime", "backend_graph_executor", "param_dict", "cpp_build_module"),
        *("runtime_graph", "runtime_graph_debug", "runtime_packed_func", "runtime_ndarray", "runtime_nd_array"),
        *("runtime_module_load", "module_load", "runtime_module_based_interface", "runtime_container", "vm", "vm_serialization"),
    ),
    "loops": (
        *("tir_ir_builder", "tir_nodes", "tir_constructor", "tir_ops", "tir_structural_equal_hash", "te_tensor"),
        *("arith_rewrite_simplify", "arith_canonical_simplify", "arith_const_int_bound", "arith_modular_set", "arith_intset"),
        *("arith_deduce_bound", "arith_detect_clip_bound", "arith_detect_linear_equation", "arith_domain_touched", "arith_iter_affine_map"),
        *("arith_solve_linear_equations", "arith_solve_linear_inequality"),
        *("tir_transform_unroll_loop", "tir_transform_vectorize", "tir_transform_remove_no_op", "tir_transform_simplify"),
        *("tir_transform_storage_flatten", "tir_transform_storage_rewrite", "tir_transform_loop_partition"),
    ),
    "more passes": (
        *("pass_alter_op_layout", "pass_convert_op_layout", "pass_inline", "pass_gradient", "pass_merge_composite", "pass_annotate_target"),
        *("pass_partition_graph", "pass_fake_quantization_to_integer", "py_converter", "adt", "pass_remove_unused_functions"),
        *("pass_fuse_ops", "pass_defuse_ops", "pass_dynamic_to_static", "pass_div_to_mul", "pass_eta_expand", "pass_lambda_lift"),
        *("pass_defunctionalization", "pass_partial_eval", "pass_to_basic_block_normal_form", "pass_to_cps", "pass_to_graph_normal_form"),
        *(f"op_grad_level{level}" for level in (1, 2, 3, 4, 10)),
        *(
            "pass_legalize",
            "pass_merge_compiler_regions",
            "annotated_regions",
            "pass_flatten_atrous_conv",
            "pass_fold_explicit_padding",
            "pass_lazy_gradient_init",
        ),
        *(
            "analysis_extract_operators",
            "analysis_extract_intermediate_expr",
            "simplify_fc_transpose",
            "pass_split_args",
            "pass_qnn_legalize",
        ),
    ),
}
"""The test files that are run, by subject, without `test_` and `.py`. Checkouts of other versions lack some of them."""
FOLDERS: Final = ("relay", "unittest", "runtime", "all-platform-minimal-test")
"""The folders of test files, in which the first file of a name is run."""
SECONDS: Final = 600
MEMORY: Final = 6 << 30


@dataclass
class Found:
    """The results of one file: names of passed and skipped tests, and the reasons of failures."""

    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.failed)


def run_file(path: Path, checkout: Path) -> Found:
    """Runs the tests of one file of a checkout."""
    with TemporaryDirectory() as folder:
        log = Path(folder, "log.json")
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(path),
            "-q",
            "-p",
            "tests.conformance.tvm_plugin",
            "-p",
            "no:cacheprovider",
            "--noconftest",
        ]
        command += ["-c", os.devnull, f"--rootdir={folder}", "--import-mode=importlib", "--continue-on-collection-errors"]
        environment = os.environ | {"PASSAT_CONFORMANCE_LOG": str(log), CHECKOUT: str(checkout.absolute()), "PYTHONPATH": os.getcwd()}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, preexec_fn=_limit_memory
            )
            ending = f"the process ended with code {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
        except subprocess.TimeoutExpired:
            ending = f"the file takes longer than {SECONDS} s"
        found = Found()
        lines = log.read_text().splitlines() if log.exists() else []
        for name, outcome, reason in map(json.loads, lines):
            if outcome == "failed":
                found.failed[name] = reason
            else:
                getattr(found, outcome).append(name)
        if not lines or not ending.startswith(("the process ended with code 0", "the process ended with code 1")):
            found.failed["(the file)"] = " ".join(ending.split())
        return found


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def table(results: dict[str, Found]) -> Iterable[str]:
    """Lines of a Markdown table: how many tests pass, by file."""
    yield "| group | file | passed | of | skipped |"
    yield "| :-- | :-- | --: | --: | --: |"
    whole: Counter[str] = Counter()
    named = {file for files in GROUPS.values() for file in files}
    for group, files in (*GROUPS.items(), ("other", [file for file in results if file not in named])):
        there = [(file, results[file]) for file in files if file in results]
        for file, found in there:
            yield f"| {group} | `test_{file}.py` | {len(found.passed)} | {found.total} | {len(found.skipped) or ''} |"
        passed, total = sum(len(found.passed) for _, found in there), sum(found.total for _, found in there)
        if there:
            yield f"| **{group}** | | **{passed}** | **{total}** | |"
        whole += Counter(passed=passed, total=total)
    yield f"| **all** | | **{whole['passed']}** | **{whole['total']}** | |"


def find_file(folders: Iterable[Path], file: str) -> Path | None:
    """The first test file of a name."""
    return next((path for folder in folders if (path := folder / f"test_{file}.py").is_file()), None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of TVM (tag v0.18.0; v0.5, v0.6.0 and v0.8.0 for older names)")
    parser.add_argument("files", nargs="*", help="test files, without test_ and .py; all by default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="say of each test that fails why")
    parser.add_argument("--unexplained", action="store_true", help=f"print tests that fail without a reason in docs/{PAGE.name}")
    options = parser.parse_intermixed_args(arguments)
    folders = [options.checkout / "tests" / "python" / folder for folder in FOLDERS]
    if not folders[0].is_dir():
        parser.error(f"{folders[0]} is not there: {options.checkout} is not a checkout of TVM before v0.19")
    if importlib.util.find_spec("pytest") is None:
        parser.error("TVM's tests need the packages of Passat's own: pip install --editable '.[onnx]' --group dev (pip 25.1 or later)")
    wanted = options.files or [file for group in GROUPS.values() for file in group]
    paths = {file: path for file in wanted if (path := find_file(folders, file)) is not None}
    unknown = [file for file in options.files if file not in paths]
    if unknown:
        parser.error(f"no folder of {folders[0].parent} has test_{unknown[0]}.py")
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(paths, pool.map(lambda path: run_file(path, options.checkout), paths.values()), strict=True))
    print("\n".join(table(results)))
    if options.failures:
        for file, found in results.items():
            for name, reason in found.failed.items():
                print(f"{file}::{name}: {reason}")
    if options.unexplained:
        failed = {file: found.failed for file, found in results.items()}
        passed = {file: found.passed for file, found in results.items()}
        print("\n".join(contradictions(failed, passed, PAGE.read_text())))


if __name__ == "__main__":
    main()
