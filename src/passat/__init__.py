"""Passat: optimisations of tensor programs as rewrite rules, saturated in an e-graph and run by a pass manager."""
