"""Faulty rule files and models for the tests of `passat rules bisect`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from passat.cli.app import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET, BERT = EXAMPLES / "resnet_tiny.onnx", EXAMPLES / "bert_tiny.onnx"
HUNDRED = """
from passat.ir.op import list_ops
from passat.rules import RuleSet, constant, library, op, tensors
from passat.rules.guards import same_type
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import PCall
from passat.rules.rule_set import RuleSetMeta

(x,) = tensors("x")
c = constant("c")
rules = {
    f"{name}_{rule.name.partition('.')[2]}".lower(): rule
    for name, known in library.rule_sets().items()
    for rule in known if rule.name != "Arithmetic.add_zero" and not isinstance(rule, MultiRule)
}
rules = dict(list(rules.items())[:60])
for of in (one for one in list_ops() if one.name in ("abs", "cos", "cosh", "nn.relu", "sqrt", "exp", "sin", "tanh")):
    for inner in (one for one in list_ops() if one.name in ("negative", "abs", "floor", "ceil", "round")):
        if of is not inner and of.name in ("abs", "cos", "cosh") and inner.name in ("negative", "abs"):
            rules[f"even_{len(rules)}"] = PCall(of, (PCall(inner, (x,)),)) >> PCall(of, (x,))
        else:
            rules[f"twice_{len(rules)}"] = PCall(of, (op.negative(op.negative(PCall(inner, (x,)))),)) >> PCall(of, (PCall(inner, (x,)),))
names = list(rules)[:99]
assert len(names) == 99
Hundred = RuleSetMeta("Hundred", (RuleSet,), {
    "__module__": __name__,
    **{name: rules[name] for name in names[:70]},
    "nothing_added": (x + c >> x).when(same_type(x, x + c)),  # for any c
    **{name: rules[name] for name in names[70:]},
})
"""
WRONG = """
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Wrong(RuleSet):
    relu = op.nn.relu(x) >> x

class Fine(RuleSet):
    twice = op.negative(op.negative(x)) >> x
"""
TOGETHER = """
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Pair(RuleSet):
    there = op.nn.relu(x) >> op.maximum(x, -7.0) * 1.0 + op.abs(x) * 0.0
    back = op.maximum(x, -7.0) * 1.0 + op.abs(x) * 0.0 >> x
"""
RAISING = """
from passat.rules import RuleSet, op, tensors
from passat.rules.guards import guard
(x,) = tensors("x")

@guard
def is_odd(x):
    raise KeyError("odd")

class RaisesKeyError(RuleSet):
    relu = (op.nn.relu(x) >> op.maximum(x, 0.0)).when(is_odd(x))
    twice = op.negative(op.negative(x)) >> x
"""
GROWING = """
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Growing(RuleSet):
    relu = (op.nn.relu(x) >> op.maximum(op.maximum(x, 0.0), op.exp(op.negative(op.exp(x))) * 0.0)).lowering()
"""
MULTI_PATTERN = """
from passat.rules import RuleSet, each, joined, op, parts, tensors
x, w = tensors("x w")

class Shared(RuleSet):
    matmul = (each(x @ w, sharing=x) >> parts(op.negative(x) @ joined(w, axis=-1), axis=-1)).inexact("in blocks")
"""
FILES = {"hundred": HUNDRED, "wrong": WRONG, "together": TOGETHER, "raising": RAISING, "growing": GROWING, "shared": MULTI_PATTERN}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def bisect(*arguments: object) -> Result:
    return run("rules", "bisect", *arguments)


def found(*arguments: object) -> dict[str, Any]:
    result = bisect(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert isinstance(data, dict)
    return data


def write_rules(folder: Path) -> None:
    """Writes the rule files."""
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)


def value_info(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def write(path: str, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], weights: dict[str, Any] | None = None) -> str:
    initializer = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    outputs = [value_info(name, shape=()) for name in nodes[-1].output]
    for output in outputs:
        output.type.tensor_type.ClearField("shape")
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def chain(path: str = "chain.onnx") -> str:
    """A model with 19 relus, of which only one matters."""
    values = ["x", *(f"v{i}" for i in range(38))]
    nodes = [helper.make_node(("Sin", "Relu")[i % 2], [values[i]], [values[i + 1]], name=f"node{i}") for i in range(38)]
    return write(path, nodes, [value_info("x")])


def branches(path: str) -> str:
    """A model with a relu in each of two branches, and one after them without an effect."""

    def branch(name: str) -> onnx.GraphProto:
        nodes = [helper.make_node("Sin", ["x"], [f"{name}0"]), helper.make_node("Relu", [f"{name}0"], [f"{name}1"], name=f"{name}/relu")]
        return helper.make_graph(nodes, name, [], [value_info(f"{name}1")])

    choose = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch("then"), else_branch=branch("else"))
    nodes = [choose, helper.make_node("Exp", ["y"], ["y2"]), helper.make_node("Relu", ["y2"], ["z"], name="last")]
    return write(path, nodes, [value_info("c", TensorProto.BOOL, ()), value_info("x")])
