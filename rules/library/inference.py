"""What training needs and inference does not. Operators: nn.dropout."""

from passat.rules.pattern import op, tensor
from passat.rules.rule import RuleSet

x = tensor("x")


class Inference(RuleSet):
    """Operators that do nothing in inference."""

    dropout = op.nn.dropout(x)[0] >> x
