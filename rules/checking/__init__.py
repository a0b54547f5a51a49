"""Trying rules out: random well-typed instances, both sides compared by the kernels, and what is wrong shown as small as it gets."""
