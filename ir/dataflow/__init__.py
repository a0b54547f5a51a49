"""Patterns over expressions with dominators, alternatives and functions: TVM's `relay.dataflow_pattern`.

`pattern` has the kinds of patterns and the functions that build them, `matcher` finds one at an expression, `groups` finds all places in a
program that do not overlap, and `rewriting` replaces them, or makes functions of them.
"""
