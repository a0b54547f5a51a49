"""Test models: exports from PyTorch with random weights (transformers, convolutional networks, applications), and synthetic graphs.

    python benchmarks/models.py OUTDIR                            # every model at the small size, and the synthetic graphs
    python benchmarks/models.py OUTDIR --only bert gpt2_dynamo    # those whose name starts with one of these
    python benchmarks/models.py OUTDIR --size h192                # of hidden size 192, 256 or 768, with 4, 3 and 2 layers
    python benchmarks/models.py OUTDIR --size deep --only bert    # 12 layers instead of 2
    python benchmarks/models.py OUTDIR --size wide --only bert    # 2 layers of real width, hidden 768, 128 tokens or images of 224 pixels
    python benchmarks/models.py OUTDIR --size base --only bert    # 12 layers of real width, hidden 768: files of 300 to 600 MB
    python benchmarks/models.py OUTDIR --opset 17 --only bert     # in an opset without Gelu and the like, as published models are
    python benchmarks/models.py OUTDIR --only big_external        # 2.2 GB with external data, made only when named

A file is called FAMILY_EXPORTER_SHAPES.onnx, with the size after FAMILY unless it is small, and the opset if one is given.
Weights are random under a fixed seed and come from configurations alone, so nothing is downloaded. This needs torch and transformers, and
for some families diffusers, pytorch-tabnet or rtdl-revisiting-models, which Passat itself does not. The two files in `examples/models/`
are bert_torchscript_dynamic and resnet_torchscriptraw_dynamic.

Workarounds for models that torch 2.13 does not export: dynamo rejects the default attention of Swin and T5 ("Cannot view a
tensor with shape ..."), so both use the eager one; TorchScript has no `aten::diff`, which decoders call when they are given no
attention mask, so they are given one; the loop over the selected experts depends on data, so Mixtral multiplies in batches.
"""

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import application_models
import graphs
import onnx
import selection_models
import torch
import transformers
from model_example import SIZES, Example, FirstOutput, Size, pixels, text
from torch import Tensor, nn

SEED: Final = 20
EXPORTERS: Final = ("dynamo", "dynamoraw", "torchscript", "torchscriptraw")
"""Both exporters of torch, each with its defaults and `raw`: without the optimizer (dynamo) or constant folding and fusion
(TorchScript)."""
SHAPES: Final = ("static", "dynamic")

STACK_TRACE: Final = "pkg.torch.onnx.stack_trace"
"""Metadata of the dynamo exporter with file names of the exporting machine."""


def bert(size: Size) -> Example:
    """An encoder with learned positions."""
    config = transformers.BertConfig(vocab_size=size.vocabulary, max_position_embeddings=size.positions, **size.encoder)
    return text(transformers.BertModel(config), size)


def gpt2(size: Size) -> Example:
    """A decoder whose projections are 1D convolutions (Gemm between reshapes)."""
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.positions, n_embd=size.hidden, n_layer=size.layers, n_head=size.heads,
        use_cache=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return text(transformers.GPT2LMHeadModel(config), size)


def llama(size: Size) -> Example:
    """A decoder with rotary positions, RMS norm and grouped keys and values."""
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        max_position_embeddings=size.positions,
        num_key_value_heads=size.heads // 2,
        use_cache=False,
        **size.encoder,
    )
    return text(transformers.LlamaForCausalLM(config), size)


def mixtral(size: Size) -> Example:
    """A decoder of the Llama kind with a mixture of four experts."""
    config = transformers.MixtralConfig(
        vocab_size=size.vocabulary, max_position_embeddings=size.positions, num_key_value_heads=size.heads // 2,
        num_local_experts=4, num_experts_per_tok=2, use_cache=False, **size.encoder,
    )  # fmt: skip
    config._experts_implementation = "batched_mm"
    return text(transformers.MixtralForCausalLM(config), size)


def mamba(size: Size) -> Example:
    """A selective state-space model; its scan is unrolled over the sequence, so the graph is long and only the batch may vary."""
    config = transformers.MambaConfig(
        vocab_size=size.vocabulary, hidden_size=size.hidden, state_size=8, num_hidden_layers=size.layers, use_cache=False
    )
    return text(transformers.MambaModel(config), size, mask=False, axes=["batch"])


def t5(size: Size) -> Example:
    """The encoder of T5, with relative positions in buckets."""
    config = transformers.T5Config(
        vocab_size=size.vocabulary, d_model=size.hidden, d_kv=size.hidden // size.heads, d_ff=4 * size.hidden,
        num_layers=size.layers, num_heads=size.heads,
    )  # fmt: skip
    config._attn_implementation = "eager"
    return text(transformers.T5EncoderModel(config), size)


def whisper(size: Size) -> Example:
    """The encoder of Whisper: two convolutions, then attention. The number of frames is fixed by the model."""
    config = transformers.WhisperConfig(
        d_model=size.hidden, encoder_layers=size.layers, encoder_attention_heads=size.heads, encoder_ffn_dim=4 * size.hidden,
        num_mel_bins=16, max_source_positions=2 * size.sequence, vocab_size=size.vocabulary,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 16, 4 * size.sequence)}
    return Example(FirstOutput(transformers.models.whisper.modeling_whisper.WhisperEncoder(config), inputs), inputs, {0: "batch"})


def vit(size: Size) -> Example:
    """A vision transformer: patches by convolution and a class token."""
    return pixels(transformers.ViTModel(transformers.ViTConfig(image_size=size.image, patch_size=size.patch, **size.encoder)), size)


def swin(size: Size) -> Example:
    """A hierarchical vision transformer with shifted windows: many reshapes, transposes and rolls."""
    config = transformers.SwinConfig(
        image_size=size.image, patch_size=max(2, size.image // 56), embed_dim=size.hidden // 2,
        depths=[size.layers] * 2, num_heads=[2, 4], window_size=4,
    )  # fmt: skip
    config._attn_implementation = "eager"
    return pixels(transformers.SwinModel(config), size)


def segformer(size: Size) -> Example:
    """A hierarchical vision transformer with attention over reduced keys and depthwise convolutions in its feed-forward layers."""
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[size.layers] * 2, sr_ratios=[2, 1], hidden_sizes=[size.hidden // 2, size.hidden],
        patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[4, 4],
    )  # fmt: skip
    return pixels(transformers.SegformerModel(config), size)


def deberta(size: Size) -> Example:
    """An encoder whose attention separates content from relative positions."""
    config = transformers.DebertaV2Config(
        vocab_size=size.vocabulary, max_position_embeddings=size.positions, relative_attention=True, pos_att_type=["c2p", "p2c"],
        **size.encoder,
    )  # fmt: skip
    return text(transformers.DebertaV2Model(config), size)


def wav2vec2(size: Size) -> Example:
    """A speech encoder: convolutions over the waveform, then attention. The number of samples is fixed."""
    config = transformers.Wav2Vec2Config(
        vocab_size=32, conv_dim=(size.hidden,) * 3, conv_stride=(5, 4, 4), conv_kernel=(10, 8, 4), num_feat_extract_layers=3,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **size.encoder,
    )  # fmt: skip
    inputs = {"input_values": torch.randn(2, 80 * size.sequence)}
    return Example(FirstOutput(transformers.Wav2Vec2Model(config), inputs), inputs, {0: "batch"})


class Residual(nn.Module):
    """Adds the result of a branch to its input, or to a projection of the input."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        """Run both ways, and the layers after their sum."""
        output: Tensor = self.after(self.branch(x) + self.shortcut(x))
        return output


class Permute(nn.Module):
    """Reorders axes."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        """Permute `x`."""
        return x.permute(self.axes)


class Scale(nn.Module):
    """Multiplies by a learned vector along the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """Scale `x`."""
        return x * self.scale


def _normalized(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias, and a batch norm with nontrivial statistics."""
    norm = nn.BatchNorm2d(outputs)
    for tensor, low, high in (
        (norm.running_mean, -0.5, 0.5),
        (norm.running_var, 0.5, 1.5),
        (norm.weight, 0.5, 1.5),
        (norm.bias, -0.5, 0.5),
    ):
        if tensor is not None:
            nn.init.uniform_(tensor, low, high)
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), norm]


def resnet(size: Size) -> Example:
    """A residual network of bottlenecks with batch norm, as ResNet-50 has them."""

    def bottleneck(inputs: int, width: int, stride: int) -> nn.Module:
        outputs = 4 * width
        branch = nn.Sequential(
            *_normalized(inputs, width, 1), nn.ReLU(), *_normalized(width, width, 3, stride), nn.ReLU(), *_normalized(width, outputs, 1)
        )
        same = inputs == outputs and stride == 1
        return Residual(branch, nn.Identity() if same else nn.Sequential(*_normalized(inputs, outputs, 1, stride)), nn.ReLU())

    width = size.hidden // 8
    layers: list[nn.Module] = [*_normalized(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage in range(3):
        for block in range(size.layers):
            layers.append(bottleneck(inputs, width << stage, 2 if stage and not block else 1))
            inputs = 4 * (width << stage)
    return pixels(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(inputs, 10)), size, wrap=False)


def convnext(size: Size) -> Example:
    """Blocks of the ConvNeXt kind: depthwise convolution, layer norm with channels last, two dense layers, layer scale."""

    def block(width: int) -> nn.Module:
        dense = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Scale(width)]
        branch = [
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Permute(0, 2, 3, 1),
            nn.LayerNorm(width),
            *dense,
            Permute(0, 3, 1, 2),
        ]
        return Residual(nn.Sequential(*branch), nn.Identity(), nn.Identity())

    def norm(width: int) -> list[nn.Module]:
        return [Permute(0, 2, 3, 1), nn.LayerNorm(width), Permute(0, 3, 1, 2)]

    width = size.hidden // 2
    layers = [nn.Conv2d(3, width, 4, 4), *norm(width), *(block(width) for _ in range(size.layers))]
    layers += [*norm(width), nn.Conv2d(width, 2 * width, 2, 2), *(block(2 * width) for _ in range(size.layers))]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(2 * width), nn.Linear(2 * width, 10)]
    return pixels(nn.Sequential(*layers), size, wrap=False)


FAMILIES: Final[dict[str, Callable[[Size], Example]]] = {
    recipe.__name__: recipe
    for recipe in (
        *(bert, gpt2, llama, vit, swin, t5, whisper, mamba, mixtral, resnet, convnext, segformer, deberta, wav2vec2),
        *selection_models.FAMILIES,
        *application_models.FAMILIES,
    )
}

SYNTHETIC: Final[dict[str, Callable[[], onnx.ModelProto]]] = {
    "chain_1000": lambda: graphs.chain(1_000),
    "chain_5000": lambda: graphs.chain(5_000),
    "chain_50000": lambda: graphs.chain(50_000),
    "wide_1000": lambda: graphs.wide(1_000),
    "wide_20000": lambda: graphs.wide(20_000),
}


def export(example: Example, path: Path, exporter: str, opset: int | None, *, dynamic: bool) -> None:
    """Write `example` to `path` through one of the `EXPORTERS`, in an opset or that of the exporter."""
    module, inputs = example.module.eval(), tuple(example.inputs.values())
    names = list(example.inputs)
    raw = exporter.endswith("raw")
    if exporter.startswith("dynamo"):
        axes = {axis: torch.export.Dim(name) for axis, name in example.axes.items()}
        shapes = ((axes,) * len(inputs),) if isinstance(module, FirstOutput) else (axes,) * len(inputs)
        program = torch.onnx.export(
            module, inputs, dynamo=True, optimize=not raw, opset_version=opset, input_names=names, output_names=["output"], verbose=False,
            dynamic_shapes=shapes if dynamic else None,
        )  # fmt: skip
        assert program is not None, "dynamo=True returns the program"
        program.save(path, external_data=False)
    else:
        torch.onnx.export(
            module, inputs, path, dynamo=False, opset_version=opset, input_names=names, output_names=["output"],
            do_constant_folding=not raw, training=torch.onnx.TrainingMode.PRESERVE if raw else torch.onnx.TrainingMode.EVAL,
            dynamic_axes=dict.fromkeys([*names, "output"], example.axes) if dynamic else None,
        )  # fmt: skip


def strip_paths(model: onnx.ModelProto) -> None:
    """Remove stack traces and documentation strings, which name files of the machine that exported `model`."""
    graph_like = [model.graph, *model.functions]
    for holder in [model, *graph_like, *(node for graph in graph_like for node in graph.node)]:
        holder.ClearField("doc_string")
        kept = [entry for entry in holder.metadata_props if entry.key != STACK_TRACE]
        del holder.metadata_props[:]
        holder.metadata_props.extend(kept)


def perturb(module: nn.Module) -> None:
    """Move every parameter a little: new biases are 0 and new scales 1, unlike in a trained model."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)


def make(path: Path, family: str, size: Size, exporter: str, shapes: str, opset: int | None) -> str:
    """Export one model to `path` and check it; return a line for the table."""
    torch.manual_seed(SEED)
    example = FAMILIES[family](size)
    perturb(example.module)
    export(example, path, exporter, opset, dynamic=shapes == "dynamic")
    model = onnx.load(path)
    strip_paths(model)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return f"{len(model.graph.node)} nodes, {path.stat().st_size:,} bytes"


def main() -> int:
    """Read the command line, make the models, and return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="Make ONNX models for tests and benchmarks.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="only those whose name starts with one of these")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--opset", type=int, help="of the models; by default that of the exporter (18 and later for dynamo)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

    failures = 0
    infix = "" if arguments.size == "small" else f"_{arguments.size}"
    infix += "" if arguments.opset is None else f"_opset{arguments.opset}"
    for family in FAMILIES:
        for exporter in EXPORTERS:
            for shapes in SHAPES:
                name = f"{family}{infix}_{exporter}_{shapes}"
                if not name.startswith(tuple(arguments.only)):
                    continue
                started = time.perf_counter()
                try:
                    line = make(arguments.folder / f"{name}.onnx", family, SIZES[arguments.size], exporter, shapes, arguments.opset)
                except Exception as error:  # an exporter may raise anything; the other models are still exported
                    failures += 1
                    line = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                print(f"{name:36} {time.perf_counter() - started:5.1f} s  {line}", flush=True)
    for name, build in SYNTHETIC.items():
        if name.startswith(tuple(arguments.only)):
            onnx.save(build(), arguments.folder / f"{name}.onnx")
            print(f"{name:36} written", flush=True)
    if "big_external" in arguments.only:
        graphs.big_external(arguments.folder / "big_external.onnx")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
