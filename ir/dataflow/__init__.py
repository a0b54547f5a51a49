"""Dataflow patterns with alternatives, dominators and functions: TVM's `relay.dataflow_pattern`.

* `pattern` has the kinds of patterns and their constructors.
* `matcher` matches a pattern at an expression.
* `groups` finds all non-overlapping matches in a program.
* `rewriting` replaces matches, or extracts them into functions.
"""
