"""The rule language, the e-graph engine, extraction and cost models. `passat.rules.library` has the rules."""

from passat.rules.cost import CostError, CostModel, Machine, NodeCount, Roofline, program_cost
from passat.rules.guards import Reject, Term, computed, guard
from passat.rules.holes import cases, constants_of, operator, tensors_of
from passat.rules.multi_pattern import each, joined, parts
from passat.rules.pattern import RuleError, attribute, attributes, constant, constants, number, op, tensor, tensors, value
from passat.rules.rule import Rule
from passat.rules.rule_pass import RulePass, phase, rule_pass
from passat.rules.rule_set import RuleSet

__all__ = [
    "CostError",
    "CostModel",
    "Machine",
    "NodeCount",
    "Reject",
    "Roofline",
    "Rule",
    "RuleError",
    "RulePass",
    "RuleSet",
    "Term",
    "attribute",
    "attributes",
    "cases",
    "computed",
    "constant",
    "constants",
    "constants_of",
    "each",
    "guard",
    "joined",
    "number",
    "op",
    "operator",
    "parts",
    "phase",
    "program_cost",
    "rule_pass",
    "tensor",
    "tensors",
    "tensors_of",
    "value",
]
