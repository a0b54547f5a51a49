"""Your knowledge about your models, as rules. This file also works on the command line:

passat optimize models/resnet_tiny.onnx -o smaller.onnx --rules rules_of_your_own.py
"""

from pathlib import Path

import passat
from passat.rules import RuleSet, attribute, op, tensor

MODEL = Path(__file__).parent / "models" / "resnet_tiny.onnx"

x = tensor("x")
pool = attribute("pool")


class Pooling(RuleSet):
    """Moves work after a pooling, where there are fewer elements."""

    relu_last = (op.nn.max_pool2d(op.nn.relu(x), attrs=pool) >> op.nn.relu(op.nn.max_pool2d(x, attrs=pool))).inexact("the sign of 0")


def main() -> None:
    without = passat.optimize(MODEL).report
    report = passat.optimize(MODEL, rules=[Pooling]).report
    print(report)
    print(f"estimated {without.cost_after * 1e3:.3g} ms without the rule, {report.cost_after * 1e3:.3g} ms with it")

    fired = {rule.name: rule.fired for rule in report.rules}
    assert fired["Pooling.relu_last"] == 1
    assert report.cost_after < without.cost_after


if __name__ == "__main__":
    main()
