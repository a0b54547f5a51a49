"""`relay.image`: images resized to other sizes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from passat.ir.expr import Call, Expr
from passat.relay.building import Numbers, call, numbers, only_dtype, operand
from passat.relay.names import explain_arguments, missing_name

__all__ = ["resize1d", "resize2d", "resize3d"]


def resize1d(
    data: Expr,
    size: Numbers,
    roi: Sequence[float] | None = None,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """A signal resized to `size` by interpolation."""
    given = (coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude, extrapolation_value)
    return _resize(1, data, size, roi, layout, method, *given, out_dtype=out_dtype)


def resize2d(
    data: Expr,
    size: Numbers,
    roi: Sequence[float] | None = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """An image resized to `size` (height, width) by interpolation."""
    given = (coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude, extrapolation_value)
    return _resize(2, data, size, roi, layout, method, *given, out_dtype=out_dtype)


def resize3d(
    data: Expr,
    size: Numbers,
    roi: Sequence[float] | None = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """A volume resized to `size` (depth, height, width) by interpolation."""
    given = (coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude, extrapolation_value)
    return _resize(3, data, size, roi, layout, method, *given, out_dtype=out_dtype)


def _resize(
    rank: int,
    data: Expr,
    size: Numbers,
    roi: Sequence[float] | None,
    layout: str,
    method: str,
    mode: str,
    rounding: str,
    alpha: float,
    exclude: int,
    outside: float,
    *,
    out_dtype: str | None,
) -> Call:
    name = f"image.resize{rank}d"
    only_dtype(name, out_dtype, operand(name, "data", data))
    sizes = numbers(name, "size", size)
    return call(
        name,
        data,
        size=sizes * rank if len(sizes) == 1 else sizes,
        roi=() if roi is None else tuple(float(value) for value in roi),
        layout=layout,
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding,
        cubic_alpha=alpha,
        cubic_exclude=bool(exclude),
        extrapolation_value=outside,
    )


explain_arguments(globals(), __all__, "image.")


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.image", __all__)
