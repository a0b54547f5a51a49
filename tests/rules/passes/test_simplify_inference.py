"""SimplifyInference: removes dropout, and with `unpack` expands normalizations."""

import pytest

from passat.passmgr import parse_pipeline, pipeline_text
from passat.rules.passes.simplify import simplify_inference
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.running import assert_equal_in_value

VECTORS = "%g: (3), %b: (3), %m: (3), %v: (3)"
FACTOR = """
  %0 = sqrt(add(%v, 1e-05f));
  %1 = divide(1f, %0);
"""


def test_a_batch_normalization_scales_and_shifts() -> None:
    becomes(
        simplify_inference(unpack=True),
        f"%x: (1, 3, 4, 4), {VECTORS}",
        "nn.batch_norm(%x, %g, %b, %m, %v).0",
        FACTOR
        + """
  %2 = multiply(%1, %g);
  %3 = multiply(%x, expand_dims(%2, axis=1, num_newaxis=2));
  %4 = add(multiply(negative(%m), %2), %b);
  add(%3, expand_dims(%4, axis=1, num_newaxis=2))
""",
    )


def test_channels_that_are_last_need_no_new_axes() -> None:
    becomes(
        simplify_inference(unpack=True),
        f"%x: (1, 4, 4, 3), {VECTORS}",
        "nn.batch_norm(%x, %g, %b, %m, %v, axis=3, scale=False).0",
        FACTOR + "add(multiply(%x, %1), add(multiply(negative(%m), %1), %b))",
    )
    becomes(
        simplify_inference(unpack=True),
        f"%x: (1, 4, 4, 3), {VECTORS}",
        "nn.batch_norm(%x, %g, %b, %m, %v, axis=-1, scale=False, center=False).0",
        FACTOR + "add(multiply(%x, %1), multiply(negative(%m), %1))",
    )


def test_the_mean_of_a_batch_normalization_stays() -> None:
    stays(simplify_inference(unpack=True), f"%x: (1, 3, 4, 4), {VECTORS}", "nn.batch_norm(%x, %g, %b, %m, %v).1")


def test_a_layer_normalization() -> None:
    becomes(
        simplify_inference(unpack=True),
        "%x: (2, 3), %g: (3), %b: (3)",
        "nn.layer_norm(%x, %g, %b)",
        """
  %0 = subtract(%x, mean(%x, axis=[1], keepdims=True));
  %1 = mean(multiply(%0, %0), axis=[1], keepdims=True);
  add(multiply(divide(%0, sqrt(add(%1, 1e-05f))), %g), %b)
""",
    )


def test_an_l2_normalization() -> None:
    becomes(
        simplify_inference(unpack=True),
        "%x: (2, 3)",
        "nn.l2_normalize(%x, eps=0.001f, axis=[1])",
        "divide(%x, sqrt(maximum(sum(multiply(%x, %x), axis=[1], keepdims=True), 0.001f)))",
    )


@pytest.mark.parametrize(
    "body",
    [
        "nn.group_norm(%x, %g, %b, num_groups=2)",
        "nn.instance_norm(%x, %g, %b)",
        "nn.group_norm(transpose(%x, axes=[0, 2, 3, 1]), %g, %b, num_groups=2, axis=3)",
        "nn.instance_norm(transpose(%x, axes=[0, 2, 3, 1]), %g, %b, axis=3)",
    ],
)
def test_normalizations_of_groups_keep_their_values(body: str) -> None:
    before = program("%x: (2, 4, 3, 3), %g: (4), %b: (4)", body)
    after = run(simplify_inference(unpack=True), before)
    assert "norm" not in str(after)
    assert_equal_in_value(before["main"], after["main"], exact=False)


def test_programs_that_cannot_be_decomposed_stay() -> None:
    stays(simplify_inference(unpack=True), "%x: (2, 3) float16, %g: (3) float16, %b: (3) float16", "nn.layer_norm(%x, %g, %b)")
    stays(simplify_inference(unpack=True), "%x: (2, 3), %g: (3), %b: (3)", "nn.layer_norm(%x, %g, %b)", rules__math="exact")


def test_by_default_normalizations_stay_whole() -> None:
    stays(simplify_inference(), "%x: (2, 3), %g: (3), %b: (3)", "nn.layer_norm(%x, %g, %b)")
    becomes(simplify_inference(), "%x: (2, 3)", "nn.relu(nn.dropout(%x, rate=0.5f).0)", "nn.relu(%x)")


def test_the_option_in_pipeline_text() -> None:
    text = "SimplifyInference{unpack=True}"
    assert pipeline_text(parse_pipeline(text)) == text


def test_relays_pass_unpacks_normalizations() -> None:
    from passat import relay

    made = run(relay.transform.SimplifyInference(), program("%x: (2, 3), %g: (3), %b: (3)", "nn.layer_norm(%x, %g, %b)"))
    assert "layer_norm" not in str(made)
