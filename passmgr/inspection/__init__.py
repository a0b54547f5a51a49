"""Instruments that observe passes: time, memory, printed programs and their changes, dumps, checks."""
