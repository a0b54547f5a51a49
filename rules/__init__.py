"""The optimisations: the rule language, the e-graph engine, extraction and cost; `passat.rules.library` holds the rules themselves."""

from passat.rules.conditions import Refuse, Term, computed, condition
from passat.rules.cost import CostModel, Machine, NodeCount, Roofline, program_cost
from passat.rules.pattern import (
    RuleError,
    attribute,
    attributes,
    constant,
    constants,
    number,
    op,
    tensor,
    tensors,
)
from passat.rules.rule import Rule, RuleSet
from passat.rules.rule_pass import RulePass, rule_pass

__all__ = [
    "CostModel",
    "Machine",
    "NodeCount",
    "Refuse",
    "Roofline",
    "Rule",
    "RuleError",
    "RulePass",
    "RuleSet",
    "Term",
    "attribute",
    "attributes",
    "computed",
    "condition",
    "constant",
    "constants",
    "number",
    "op",
    "program_cost",
    "rule_pass",
    "tensor",
    "tensors",
]
