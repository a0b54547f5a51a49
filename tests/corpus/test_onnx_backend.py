"""ONNX's own tests of backends, on Passat's; `tests/conformance/run_onnx.py` runs all of them."""

from tests.conformance.run_onnx import GROUPS, run


def test_a_fixed_share_of_the_tests_of_onnx_passes() -> None:
    # softmax rounds less often here; models are large
    results = run("^test_(?!attention_4d_causal_fp16)", 31, list(GROUPS)[:-1], compared=False)
    assert {name: why for found in results.values() for name, why in found.failed.items() if name in found.reference} == {}
    assert sum(len(found.kernels) for found in results.values()) > 40
