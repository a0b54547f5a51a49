"""Runs functions of the loop IR in this process: LLVM IR by llvmlite (extra `jit`), and the arguments of compiled functions."""
