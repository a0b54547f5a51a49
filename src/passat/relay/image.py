"""`relay.image`: images resized to other sizes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from passat.ir.expr import Call, Expr
from passat.relay.building import Numbers, call, numbers, of_operator, only_dtype, operand
from passat.relay.names import explain_arguments, missing_name

__all__ = ["resize1d", "resize2d", "resize3d"]


def _resize(
    name: str,
    data: Expr,
    size: Numbers,
    roi: Sequence[float] | None = None,
    layout: str = "",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """An image resized to `size`, a number for each spatial dimension or one for all, by interpolation."""
    only_dtype(name, out_dtype, operand(name, "data", data))
    sizes, rank = numbers(name, "size", size), len(layout) - 2
    return call(
        name,
        data,
        size=sizes * rank if len(sizes) == 1 else sizes,
        roi=() if roi is None else tuple(float(value) for value in roi),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=bool(cubic_exclude),
        extrapolation_value=extrapolation_value,
    )


resize1d = of_operator("image.resize1d", _resize)
resize2d = of_operator("image.resize2d", _resize)
resize3d = of_operator("image.resize3d", _resize)

explain_arguments(globals(), __all__, "image.")


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.image", __all__)
