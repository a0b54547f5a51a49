"""Families of models beyond language and images: diffusion, detection with its post-processing, tables and physics."""

from collections.abc import Callable
from typing import Any, Final

import torch
import transformers
from model_example import Example, Size
from torch import Tensor, nn
from torch.nn import functional


class Unet(nn.Module):
    """Calls a conditioned denoiser of diffusers."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, sample: Tensor, timestep: Tensor, states: Tensor) -> Tensor:
        """The noise in a sample."""
        output: Tensor = self.module(sample, timestep, states, return_dict=False)[0]
        return output


def unet(size: Size) -> Example:
    """The denoiser of latent diffusion: residual blocks with group norm, cross-attention, and an embedding of the time step."""
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=size.image // 2,
        in_channels=4,
        out_channels=4,
        block_out_channels=(size.hidden // 2, size.hidden),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=size.hidden,
        attention_head_dim=size.heads,
    )
    half = size.image // 2
    inputs = {
        "sample": torch.randn(2, 4, half, half),
        "timestep": torch.tensor([7.0, 400.0]),
        "encoder_hidden_states": torch.randn(2, size.sequence, size.hidden),
    }
    return Example(Unet(module), inputs, {0: "batch"})


class Detector(nn.Module):
    """A detector of transformers with its post-processing: classes and scores by softmax or sigmoid, boxes as corners in pixels, and zero
    in place of scores below a threshold."""

    def __init__(self, module: nn.Module, threshold: float, *, none: bool) -> None:
        super().__init__()
        self.module = module
        self.threshold = threshold
        self.none = none

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The boxes of each image, with the best class and its score."""
        output = self.module(pixel_values=pixel_values)
        chances = output.logits.softmax(-1)[..., :-1] if self.none else output.logits.sigmoid()
        scores, labels = chances.max(-1)
        x, y, width, height = output.pred_boxes.unbind(-1)
        corners = torch.stack([x - 0.5 * width, y - 0.5 * height, x + 0.5 * width, y + 0.5 * height], -1)
        high, wide = pixel_values.shape[-2:]
        boxes = (corners * torch.tensor([wide, high, wide, high])).clamp(min=0)
        return boxes, torch.where(scores > self.threshold, scores, torch.zeros_like(scores)), labels


def yolos(size: Size) -> Example:
    """A vision transformer that detects objects, with its post-processing."""
    config = transformers.YolosConfig(
        image_size=[size.image, size.image], patch_size=size.patch, num_detection_tokens=100, num_labels=80, **size.encoder
    )
    inputs = {"pixel_values": torch.randn(2, 3, size.image, size.image)}
    return Example(Detector(transformers.YolosForObjectDetection(config), 0.02, none=True), inputs, {0: "batch"})


def detr(size: Size) -> Example:
    """A residual network with a transformer that detects objects, positions computed from the mask, with its post-processing."""
    backbone = transformers.ResNetConfig(
        embedding_size=size.hidden // 4, hidden_sizes=[size.hidden // 4, size.hidden // 2], depths=[2, 2], out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=backbone, use_pretrained_backbone=False, d_model=size.hidden,
        encoder_layers=size.layers, decoder_layers=size.layers, encoder_attention_heads=size.heads, decoder_attention_heads=size.heads,
        encoder_ffn_dim=4 * size.hidden, decoder_ffn_dim=4 * size.hidden, num_queries=100, num_labels=80,
    )  # fmt: skip
    inputs = {"pixel_values": torch.randn(2, 3, 2 * size.image, 2 * size.image)}
    return Example(Detector(transformers.DetrForObjectDetection(config), 0.02, none=True), inputs, {0: "batch"})


class YoloHead(nn.Module):
    """The head of a detector without anchors: distances to the four sides from distributions over 16 bins, and scores by sigmoid."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.strides = (8, 16, 32)
        self.sides = nn.ModuleList(nn.Conv2d(channels, 64, 1) for _ in self.strides)
        self.classes = nn.ModuleList(nn.Conv2d(channels, classes, 1) for _ in self.strides)
        self.bins: Tensor
        self.register_buffer("bins", torch.arange(16, dtype=torch.float32))

    def forward(self, fine: Tensor, middle: Tensor, coarse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The corners in pixels, the scores, and the best class of each cell."""
        found: list[list[Tensor]] = [[], []]
        for level, stride, side, kind in zip((fine, middle, coarse), self.strides, self.sides, self.classes, strict=True):
            batch, _, high, wide = level.shape
            y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
            centers = torch.stack([x, y], -1).reshape(1, high * wide, 2)
            sides = side(level).reshape(batch, 4, 16, high * wide).permute(0, 3, 1, 2).softmax(-1)
            near, far = (sides * self.bins).sum(-1).chunk(2, -1)
            found[0].append(torch.cat([centers - near, centers + far], -1) * stride)
            found[1].append(kind(level).flatten(2).transpose(1, 2))
        scores = torch.cat(found[1], 1).sigmoid()
        best, label = scores.max(-1)
        return torch.cat(found[0], 1).clamp(min=0), torch.where(best > 0.25, best, torch.zeros_like(best)), label


def yolohead(size: Size) -> Example:
    """The head and the post-processing of a detector of the YOLO kind, on features of three levels."""
    sizes = [size.image // scale for scale in (1, 2, 4)]
    inputs = {f"level{number}": torch.randn(2, size.hidden, each, each) for number, each in enumerate(sizes)}
    return Example(YoloHead(size.hidden, 80), inputs, {0: "batch"})


def _rows(size: Size) -> int:
    return 64 * size.sequence


def tabnet(size: Size) -> Example:
    """TabNet on a table of numbers: steps of gated blocks, with a sparse mask over the columns in each."""
    from pytorch_tabnet.tab_network import TabNet

    columns = 64
    module = TabNet(
        columns, 2, n_d=size.hidden // 4, n_a=size.hidden // 4, n_steps=3, mask_type="entmax", group_attention_matrix=torch.eye(columns)
    )
    inputs = {"table": torch.randn(_rows(size), columns)}
    return Example(FirstOfTable(module), inputs, {0: "batch"})


class FirstOfTable(nn.Module):
    """Calls a module on a table, and returns only its first output."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, table: Tensor) -> Tensor:
        """Run the module."""
        output: Tensor = self.module(table)[0]
        return output


class Table(nn.Module):
    """Prepares a table as pipelines for tables do (a missing number becomes the mean; standard scale; clipped; a signed logarithm beside
    it), then calls a module."""

    def __init__(self, module: nn.Module, columns: int) -> None:
        super().__init__()
        self.module = module
        self.mean = nn.Parameter(torch.randn(columns))
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, table: Tensor) -> Tensor:
        """Run both."""
        known = torch.where(torch.isnan(table), self.mean, table)
        standard = ((known - self.mean) / self.scale).clamp(-5, 5)
        output: Tensor = self.module(torch.cat([standard, standard.sign() * torch.log1p(standard.abs())], -1))
        return output


def fttransformer(size: Size) -> Example:
    """FT-Transformer: one token for each column of a table, ReGLU, and attention over columns."""
    from rtdl_revisiting_models import FTTransformer

    columns = 32
    module = FTTransformer(
        n_cont_features=columns, cat_cardinalities=[], d_out=2, n_blocks=size.layers, d_block=size.hidden, attention_n_heads=size.heads,
        attention_dropout=0.0, ffn_d_hidden_multiplier=4 / 3, ffn_dropout=0.0, residual_dropout=0.0,
    )  # fmt: skip
    return Example(Columns(module), {"table": torch.randn(2 * size.sequence, columns)}, {0: "batch"})


class Columns(nn.Module):
    """Calls a module on the numbers of a table without categories."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, table: Tensor) -> Tensor:
        """Run the module."""
        output: Tensor = self.module(table, None)
        return output


def tableresnet(size: Size) -> Example:
    """A residual network for tables (Gorishniy et al., 2021) behind the usual preparation of numbers."""
    from rtdl_revisiting_models import ResNet

    columns = 64
    module = ResNet(
        d_in=2 * columns, d_out=2, n_blocks=size.layers, d_block=size.hidden, d_hidden_multiplier=2.0, dropout1=0.0, dropout2=0.0
    )
    return Example(Table(module, columns), {"table": torch.randn(_rows(size), columns)}, {0: "batch"})


class SpectralBlock(nn.Module):
    """A layer of a Fourier neural operator (Li et al., 2021): the lowest frequencies mixed by a complex product, beside a 1x1 convolution.
    The transforms are products with the matrices of the few frequencies that are kept."""

    def __init__(self, width: int, points: int, modes: int) -> None:
        super().__init__()
        self.real, self.imaginary = (nn.Parameter(torch.randn(modes * modes, width, width) / width) for _ in range(2))
        self.skip = nn.Conv2d(width, width, 1)
        angles = 2 * torch.pi * torch.outer(torch.arange(modes), torch.arange(points)) / points
        self.cosine: Tensor
        self.sine: Tensor
        self.register_buffer("cosine", torch.cos(angles))
        self.register_buffer("sine", torch.sin(angles))
        self.modes = modes

    def _transformed(self, real: Tensor, imaginary: Tensor, sign: float, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
        """The product with a complex matrix, along the last axis."""
        sine = sign * sine
        return real @ cosine - imaginary @ sine, real @ sine + imaginary @ cosine

    def forward(self, x: Tensor) -> Tensor:
        """Run both branches."""
        batch, width, _, points = x.shape
        one = self._transformed(x, torch.zeros_like(x), -1, self.cosine.T, self.sine.T)
        a, b = self._transformed(one[0].mT, one[1].mT, -1, self.cosine.T, self.sine.T)
        a, b = (each.flatten(2).permute(2, 0, 1) for each in (a, b))
        mixed = a @ self.real - b @ self.imaginary, a @ self.imaginary + b @ self.real
        c, d = (each.permute(1, 2, 0).reshape(batch, width, self.modes, self.modes) for each in mixed)
        c, d = self._transformed(c, d, 1, self.cosine, self.sine)
        found, _ = self._transformed(c.mT, d.mT, 1, self.cosine, self.sine)
        return functional.gelu(found / points**2 + self.skip(x))


def fno(size: Size) -> Example:
    """A Fourier neural operator in two dimensions, as for Darcy flow."""
    width, points = size.hidden // 4, size.image
    layers = [nn.Conv2d(3, width, 1), *(SpectralBlock(width, points, points // 4) for _ in range(size.layers)), nn.Conv2d(width, 1, 1)]
    return Example(nn.Sequential(*layers), {"fields": torch.randn(2, 3, points, points)}, {0: "batch"})


class Sine(nn.Module):
    """A layer of a sinusoidal network (Sitzmann et al., 2020) on values and their derivatives by each coordinate."""

    def __init__(self, inputs: int, outputs: int, frequency: float = 30.0) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.frequency = frequency

    def forward(self, x: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The values of the layer, and their derivatives."""
        angle = self.frequency * self.linear(x)
        return torch.sin(angle), torch.cos(angle) * (self.frequency * (slopes @ self.linear.weight.T))


class Pinn(nn.Module):
    """A physics-informed network: a field at points of space and time, and the residual of Burgers' equation without viscosity."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Sine(2 if number == 0 else width, width, 30.0 if number == 0 else 1.0) for number in range(layers + 1))
        self.last = nn.Linear(width, 1)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The field and the residual."""
        x, slopes = points, torch.eye(2)[:, None, :].expand(2, points.shape[0], 2)
        for layer in self.layers:
            x, slopes = layer(x, slopes)
        field, slopes = self.last(x), slopes @ self.last.weight.T
        return field, slopes[1] + field * slopes[0]


def pinn(size: Size) -> Example:
    """A physics-informed network of sines, with the residual of its equation."""
    return Example(Pinn(size.hidden, size.layers), {"points": torch.rand(_rows(size), 2) * 2 - 1}, {0: "batch"})


class Schnet(nn.Module):
    """The energy of molecules by continuous filters (Schuett et al., 2017): distances of all pairs, Gaussian basis functions, a cosine
    cutoff, shifted softplus."""

    def __init__(self, width: int, layers: int, gaussians: int = 50, cutoff: float = 5.0) -> None:
        super().__init__()
        self.atoms = nn.Embedding(100, width)
        self.filters = nn.ModuleList(nn.ModuleList([nn.Linear(gaussians, width), nn.Linear(width, width)]) for _ in range(layers))
        self.mixing = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(3)) for _ in range(layers))
        self.energy = nn.ModuleList([nn.Linear(width, width // 2), nn.Linear(width // 2, 1)])
        self.centers: Tensor
        self.register_buffer("centers", torch.linspace(0, cutoff, gaussians))
        self.cutoff = cutoff

    @staticmethod
    def activation(x: Tensor) -> Tensor:
        """Shifted softplus."""
        return functional.softplus(x) - 0.6931471805599453

    def forward(self, atoms: Tensor, positions: Tensor) -> Tensor:
        """The energy of each molecule."""
        x = self.atoms(atoms)
        apart = positions[:, :, None] - positions[:, None]
        distance = (apart.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        basis = torch.exp(-10.0 * (distance - self.centers).square())
        near = 0.5 * (torch.cos(distance * (torch.pi / self.cutoff)) + 1.0) * (distance < self.cutoff).to(distance.dtype)
        for (first, second), (before, middle, after) in zip(self.filters, self.mixing, strict=True):
            weights = self.activation(second(self.activation(first(basis)))) * near
            message = (weights * before(x)[:, None]).sum(2)
            x = x + after(self.activation(middle(message)))
        output: Tensor = self.energy[1](self.activation(self.energy[0](x))).sum(1)
        return output


def schnet(size: Size) -> Example:
    """A continuous-filter network for the energy of molecules."""
    atoms = size.sequence
    inputs: dict[str, Any] = {"atoms": torch.randint(1, 20, (2, atoms)), "positions": torch.rand(2, atoms, 3) * 6}
    return Example(Schnet(size.hidden // 2, size.layers), inputs, {0: "batch"})


FAMILIES: Final[tuple[Callable[[Size], Example], ...]] = (
    unet, yolos, detr, yolohead, tabnet, fttransformer, tableresnet, fno, pinn, schnet,
)  # fmt: skip
