"""Instruments that watch passes: times, memory, printed programs and what changed in them, dumps, checks."""
