"""`torch.compile(model, backend="passat")`: its results, and when and why it leaves a graph to PyTorch. `make torch` installs PyTorch."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from passat.torch_backend import FallbackWarning, difference  # noqa: E402  # torch may be missing

NAME = "passat.torch"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def optimized(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """The number of optimized graphs."""
    caplog.set_level(logging.INFO, NAME)
    return lambda: sum(record.name == NAME and record.levelno == logging.INFO for record in caplog.records)


def network() -> Any:
    """Two linear layers with a normalization between them."""
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="passat", options=options)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_it_is_found_by_its_name() -> None:
    assert "passat" in torch.compiler.list_backends()


def test_a_network_runs_on_onnx_runtime(optimized: Callable[[], int]) -> None:
    model, x = network(), torch.randn(3, 8)
    run = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            close(run(x), model(x))
    assert optimized() == 1


def test_sizes_that_change_are_compiled_once_more(optimized: Callable[[], int]) -> None:
    model = network()
    run = compiled(model)
    with torch.no_grad():
        for size in (3, 5, 9, 2):
            x = torch.randn(size, 8)
            close(run(x), model(x))
    assert optimized() == 2


def test_all_sizes_may_be_dynamic_from_the_start(optimized: Callable[[], int]) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        return scores @ v, q.shape[1]

    run = torch.compile(attention, backend="passat", dynamic=True)
    for batch, queries, keys in ((2, 3, 4), (5, 7, 6)):
        given = [torch.randn(batch, length, 8) for length in (queries, keys, keys)]
        found, size = run(*given)
        close(found, attention(*given)[0])
        assert size == queries
    assert optimized() == 1


def test_attention_and_views_as_inputs(optimized: Callable[[], int]) -> None:
    weight, x = torch.nn.Linear(16, 48), torch.randn(2, 9, 16)

    def attention(x: Any) -> Any:
        q, k, v = weight(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    run = compiled(attention)
    with torch.no_grad():
        for given in (x, x[:, :5], x[:, 2:6]):
            close(run(given), attention(given))
    assert optimized() == 2


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
def test_element_types(name: str, optimized: Callable[[], int]) -> None:
    def choose(x: Any, y: Any) -> Any:
        return torch.stack([x, y]).transpose(1, 2), torch.cat([y, x], 1)[:, 1:]

    dtype = getattr(torch, name)
    x, y = torch.randint(0, 2, (4, 5)).to(dtype), torch.randint(0, 2, (4, 5)).to(dtype)
    for found, wanted in zip(compiled(choose)(x, y), choose(x, y), strict=True):
        assert found.dtype == dtype
        assert torch.equal(found, wanted)
    assert optimized() == 1


def test_a_network_in_half_precision(optimized: Callable[[], int]) -> None:
    model, x = network().half(), torch.randn(3, 8).half()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=2e-2, atol=2e-2)
    assert optimized() == 1


def test_changed_weights_are_seen(optimized: Callable[[], int]) -> None:
    model, x = network(), torch.randn(3, 8)
    run = compiled(model)
    with torch.no_grad():
        close(run(x), model(x))
        model[0].weight.mul_(2)
        close(run(x), model(x))
        model.load_state_dict(network().state_dict())
        close(run(x), model(x))
    assert optimized() == 3


def test_two_models_of_one_class_have_their_own_weights() -> None:
    first, second, x = network(), network(), torch.randn(3, 8)
    one, two = compiled(first), compiled(second)
    with torch.no_grad():
        close(one(x), first(x))
        close(two(x), second(x))
        close(one(x), first(x))


def test_weights_that_change_all_the_time_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.torch_backend.MOST_VERSIONS", 2)
    weight = torch.nn.Parameter(torch.ones(4))
    run = torch.compile(lambda x: x * weight + 1, backend="passat", options={"verify": False})
    x = torch.randn(4)
    with torch.no_grad():
        for _ in range(2):
            weight.add_(1)
            close(run(x), x * weight + 1)
        weight.add_(1)
        with pytest.warns(FallbackWarning, match="its weights have changed 2 times"):
            close(run(x), x * weight + 1)
        weight.add_(1)
        close(run(x), x * weight + 1)


def test_a_graph_break_makes_two_graphs(optimized: Callable[[], int]) -> None:
    def broken(x: Any) -> Any:
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return torch.exp(y) + 1

    x = torch.randn(3, 4)
    close(compiled(broken)(x), broken(x))
    assert optimized() == 2


def test_arguments_come_back_as_they_are() -> None:
    x = torch.randn(3)
    found, same, nothing = compiled(lambda x: (x + 1, x, None))(x)
    close(found, x + 1)
    assert same is x
    assert nothing is None


def falls_back(model: Any, *arguments: Any, why: str, **options: Any) -> Any:
    with pytest.warns(FallbackWarning, match=f"^a graph runs in PyTorch, not on ONNX Runtime: {why}"):
        return compiled(model, **options)(*arguments)


def test_gradients_are_left_to_torch() -> None:
    model, x = network(), torch.randn(3, 8)
    falls_back(model, x, why="gradients may be needed").sum().backward()
    wanted = model[0].weight.grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    close(wanted, model[0].weight.grad)


def test_random_numbers_are_left_to_torch() -> None:
    with torch.no_grad():
        torch.manual_seed(1)
        found = falls_back(torch.nn.Dropout(), torch.ones(100), why=r"it draws random numbers \(aten")
        torch.manual_seed(1)
        assert torch.equal(found, torch.nn.Dropout()(torch.ones(100)))


def test_models_that_change_their_buffers_are_left_to_torch() -> None:
    model, x = torch.nn.BatchNorm1d(4).train(), torch.randn(8, 4)
    with torch.no_grad():
        falls_back(model, x, why="it changes its arguments, or buffers of the model")  # and runs once
        close(model.running_mean, x.mean(0) * 0.1)


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ([1000.0, 0.5, float("nan")], [1000.0, 0.1, float("nan")], ""),  # relative to the largest element
        ([1e-13], [0.0], ""),
        ([1.0, 2.0], [1.0, 2.1], "differs in 1 of 2 elements by more than rounding: 2.1 became 2 at [1]"),
        ([1.0, float("inf")], [1.0, float("nan")], "differs in 1 of 2 elements, in being finite: nan became inf at [1]"),
        ([1, 2], [1, 3], "differs in 1 of 2 elements: 3 became 2 at [1]"),
        ([1.0], [1], "has element type float32 where int64 is expected"),
        ([1.0], [1.0, 1.0], "has shape [1] where [2] is expected"),
    ],
)
def test_results_are_those_of_pytorch_up_to_rounding(found: Any, wanted: Any, said: str) -> None:
    assert difference(torch.tensor(found).numpy(), torch.tensor(wanted).numpy()) == said


def test_results_that_share_memory_are_left_to_torch() -> None:
    def view(x: Any) -> Any:
        return x + 1, x.t()

    x = torch.randn(2, 3)
    _, turned = falls_back(view, x, why="it returns a view of an argument")
    turned.zero_()
    assert not x.any()

    def views(x: Any) -> Any:
        y = x + 1
        return y, y.view(-1)

    falls_back(views, x, why="it returns a view of another result")


def test_a_number_that_changes_is_left_to_torch() -> None:
    def scaled(x: Any, k: int) -> Any:
        return x * k

    run = compiled(scaled)
    x = torch.randn(3)
    close(run(x, 2), x * 2)
    with pytest.warns(FallbackWarning, match="it has an argument that is a number and changes from call to call"):
        close(run(x, 3), x * 3)
    close(run(x, 4), x * 4)


def test_an_operator_without_onnx_is_left_to_torch() -> None:
    odd = torch.library.custom_op("passat_test::odd", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    odd.register_fake(torch.empty_like)
    x = torch.randn(3)
    close(falls_back(lambda x: odd(x) + 1, x, why=".*passat_test"), x * 3 + 1)


def test_the_options_are_those_of_optimize() -> None:
    x = torch.randn(3)
    close(compiled(lambda x: x + 1, opt_level=0, seed=3)(x), x + 1)
    with pytest.raises(Exception, match="unexpected keyword argument 'level'"):
        compiled(lambda x: x + 1, level=0)(x)
    with pytest.raises(Exception, match="there is no pass FoldConst; did you mean FoldConstant"):
        compiled(lambda x: x + 1, passes="FoldConst")(x)
    with pytest.raises(Exception, match=r"takes options={...}, not mode"):
        torch.compile(lambda x: x + 1, backend="passat", mode="max-autotune")(x)


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_the_exported_program_of_torch_is_a_model() -> None:
    import onnx_ir

    import passat

    model, x = network(), torch.randn(3, 8)
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    result = passat.optimize(program)
    assert passat.inspect(program).node_count == result.report.node_count_before
    program.model = onnx_ir.from_proto(result.model)
    close(program(x)[0], model(x))


def test_weights_that_a_fused_optimizer_changes_are_optimized_again(optimized: Callable[[], int]) -> None:
    """It does not count its changes."""
    model, x = network(), torch.randn(3, 8)
    run, optimizer = compiled(model), torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        with torch.no_grad():
            close(run(x), model(x))
        model(x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        close(run(x), model(x))
    assert optimized() == 3


def test_statistics_of_batch_normalization_are_optimized_again(optimized: Callable[[], int]) -> None:
    """Their changes are not counted."""
    model, x = torch.nn.BatchNorm1d(4, affine=False).eval(), torch.randn(6, 4)
    run = compiled(model)
    with torch.no_grad():
        close(run(x), model(x))
        model.train()(x + 3)
        model.eval()
        close(run(x), model(x))
    assert optimized() == 2


def test_weights_whose_memory_is_replaced_are_optimized_again() -> None:
    model, x = torch.nn.Linear(3, 4), torch.randn(2, 3)
    run = compiled(model)
    with torch.no_grad():
        close(run(x), model(x))
        model.half().float()
        torch.testing.assert_close(run(x), model(x), rtol=1e-6, atol=1e-6)
        model.weight.data = torch.ones(4, 3)
        close(run(x), model(x))


def test_weights_of_inference_mode_stay_in_pytorch() -> None:
    with torch.inference_mode():
        model, x = torch.nn.Linear(3, 4), torch.randn(2, 3)
        run = compiled(model)
        with pytest.warns(FallbackWarning, match=r"its weights were made under torch\.inference_mode\(\)"):
            close(run(x), model(x))
        model.weight.mul_(2)
        close(run(x), model(x))
