"""Tensors described by expressions of their elements, schedules of loops that compute them, and their lowering to functions of loops."""
