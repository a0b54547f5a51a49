"""Sessions of ONNX Runtime, in this process or in another one, which ONNX Runtime may end without ending ours."""
