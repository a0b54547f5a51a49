"""The loop IR: expressions, statements, buffers and functions, as TVM has them."""
