"""Provenance of results: the rules behind each node, and certificates of equality that a small checker replays."""
