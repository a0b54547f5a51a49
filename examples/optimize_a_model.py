"""Optimize a real model from Python, read the report, and write the result."""

import tempfile
from pathlib import Path

import passat

MODEL = Path(__file__).parent / "models" / "resnet_tiny.onnx"


def main() -> None:
    result = passat.optimize(MODEL)
    print(result.report)

    report = result.report
    assert report.node_count_after < report.node_count_before
    assert report.verification is not None
    assert report.verification.equal

    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "smaller.onnx")
        print(f"{MODEL.stat().st_size} bytes became {(Path(folder) / 'smaller.onnx').stat().st_size}")


if __name__ == "__main__":
    main()
