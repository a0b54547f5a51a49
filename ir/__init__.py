"""The language: types, expressions, operators, modules, text, traversal, analysis, evaluation of dataflow by kernels, ONNX."""
