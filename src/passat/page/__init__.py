"""What an optimization did as one self-contained page: programs before and after, rules, e-graphs, times."""
