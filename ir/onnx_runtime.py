"""ONNX Runtime, which is imported when something runs, and whose telemetry stays off."""

import os
from typing import Any as AnyValue
from typing import Final

_NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"


def onnx_runtime() -> AnyValue:
    """The package `onnxruntime`, without its telemetry. Raises ImportError if it is not installed."""
    forbid_telemetry()
    import onnxruntime

    return onnxruntime


def forbid_telemetry() -> None:
    """Keeps ONNX Runtime's telemetry off in this process and those that it starts, also where other packages import ONNX Runtime.

    From version 1.29 on, its packages report each model (file and graph names, producer, operators, hashes of weights) to its maker, and
    keep a device number and what was not sent in the home folder, unless an environment variable forbids it when they are first imported.
    Models are confidential, so Passat sets the variable, except where it has a value. See microsoft/onnxruntime, pull request 27379.
    """
    if not os.environ.get(_NO_TELEMETRY):
        os.environ[_NO_TELEMETRY] = "1"
