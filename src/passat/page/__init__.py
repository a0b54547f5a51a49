"""The report page: one self-contained HTML file with programs before and after, rules, e-graphs and times."""
