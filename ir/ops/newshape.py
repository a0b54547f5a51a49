"""Shape arithmetic of reshape: the result shape for a `newshape`, and the `newshape` for a result shape.

The number of elements gives no information about an empty tensor. If symbolic sizes cancel here, the result is correct for every non-empty
tensor; ONNX itself rejects -1 next to a size of 0.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.op import OpTypeError
from passat.ir.shape import ANY, Any, Dim, Shape, SymDim, divide, is_static, product, same_dim
from passat.ir.types import TensorType


def reshaped(shape: Shape, newshape: Sequence[Dim], allowzero: bool = False) -> Shape:
    """Returns the result shape of reshaping a tensor of `shape`. Entries of `newshape` are those of the operator reshape.

    Entries may also be symbolic, which count as sizes, or `Any`; a single `Any` is inferred like -1. Raises OpTypeError for an impossible
    reshape; numbers of elements are compared only if they are static.

    >>> n = SymDim.named("n")
    >>> reshaped((n, 12, 64), (0, -1))
    (n, 768)
    >>> reshaped((2, 3, n), (-3, -2)), reshaped((6, n), (-4, 2, -1, -2))
    ((6, n), (2, 3, n))
    """
    result: list[Dim] = []
    own: list[Dim] = []  # explicit sizes of the result
    copied: set[int] = set()  # operand axes whose sizes are copied to the result
    unknown: list[int] = []
    explicit = False
    for entry, axes in _steps(len(shape), newshape, allowzero):
        copied.update(axes)
        if isinstance(entry, tuple):
            result.extend(_split(shape[axes[0]], entry))
        elif axes:
            result.append(shape[axes[0]] if len(axes) == 1 else product(shape[axis] for axis in axes))
        elif isinstance(entry, Any) or (not isinstance(entry, SymDim) and entry == -1):
            explicit = explicit or not isinstance(entry, Any)
            unknown.append(len(result))
            result.append(ANY)
        else:
            own.append(entry)
            result.append(entry)
    rest = [dim for axis, dim in enumerate(shape) if axis not in copied]
    if len(unknown) == 1:
        result[unknown[0]] = _left(rest, own, result, explicit)
    elif not unknown and is_static(shape) and is_static(tuple(result)) and product(shape) != product(result):
        raise OpTypeError(f"{shape} has {counted(product(shape), 'element')}, but {tuple(result)} has {product(result)}")
    return tuple(result)


def _steps(rank: int, newshape: Sequence[Dim], allowzero: bool = False) -> Iterator[tuple[Dim | tuple[int, int], tuple[int, ...]]]:
    """Yields the entries of `newshape`, each with the operand axes whose sizes it uses; -2 is expanded, -4 is yielded as a pair."""
    at = 0
    entries = iter(newshape)
    inferred = False
    for entry in entries:
        if isinstance(entry, (SymDim, Any)) or entry > 0 or (entry == 0 and allowzero) or entry == -1:
            if entry == -1:
                if inferred:
                    raise OpTypeError(f"newshape={tuple(newshape)} has more than one -1")
                inferred = True
            at += 1
            yield entry, ()
            continue
        if entry not in (0, -2, -3, -4):
            raise OpTypeError(f"newshape={tuple(newshape)} has the invalid entry {entry}; use a size, 0, -1, -2, -3 or -4")
        count = {0: 1, -2: max(rank - at, 0), -3: 2, -4: 1}[entry]
        if at + count > rank and entry != -2:
            raise OpTypeError(f"newshape={tuple(newshape)} uses more sizes than the {rank} of the operand")
        axes = tuple(range(at, at + count))
        at += count
        if entry == -2:
            yield from ((0, (axis,)) for axis in axes)
        elif entry == -4:
            pair = (next(entries, None), next(entries, None))
            if not all(isinstance(part, int) for part in pair) or pair == (-1, -1):
                raise OpTypeError(f"newshape={tuple(newshape)}: -4 must be followed by the two sizes to split into, one of which may be -1")
            yield (int(pair[0]), int(pair[1])), axes  # type: ignore[arg-type]  # both are integers
        else:
            yield entry, axes


def _split(size: Dim, parts: tuple[int, int]) -> tuple[Dim, Dim]:
    first, second = parts
    if -1 in parts:
        known = max(parts)
        if isinstance(size, int) and (known == 0 or size % known):
            raise OpTypeError(f"a size of {size} does not split in {parts}")
        left = divide(size, known)
        return (left, second) if first == -1 else (first, left)
    if isinstance(size, int) and first * second != size:
        raise OpTypeError(f"a size of {size} does not split in {parts}")
    return first, second


def _left(rest: list[Dim], own: list[Dim], result: Sequence[Dim], explicit: bool) -> Dim:
    """Returns the size of -1, from the operand's sizes that are not copied and the explicit sizes."""
    if 0 in result:
        if explicit:
            raise OpTypeError("-1 cannot be inferred next to a size of 0")
        return ANY
    divisors: list[Dim] = []
    for dim in own:
        if dim in rest:
            rest.remove(dim)
        else:
            divisors.append(dim)
    dividend, divisor = product(rest), product(divisors)
    if isinstance(dividend, int) and isinstance(divisor, int) and dividend % divisor:
        if is_static(tuple(dim for dim in result if dim is not ANY)):
            raise OpTypeError(f"{counted(dividend, 'element')} cannot be divided by {divisor}")
        return ANY
    return divide(dividend, divisor)


def sources(rank: int, newshape: Sequence[int]) -> list[int | tuple[int, ...]]:
    """Maps each size of a reshape's result to an integer, or to the operand axes whose sizes it is the product of.

    >>> sources(3, (-3, -2)), sources(2, (-4, 2, -1, 0))
    ([(0, 1), (2,)], [2, -1, (1,)])
    """
    found: list[int | tuple[int, ...]] = []
    for entry, axes in _steps(rank, newshape):
        if isinstance(entry, tuple):
            found.extend(entry)
        else:
            found.append(axes or entry)  # type: ignore[arg-type]  # the entries are integers
    return found


def static_newshape(source: Shape, target: Shape, copied: Collection[int] = ()) -> dict[str, AnyValue] | None:
    """Returns the attributes of the reshape from `source` to `target`, which have equally many elements; None if there is none.

    Integers become explicit sizes, a size equal to that of `source` at the same position (or an axis in `copied`) becomes 0, and one other
    symbolic or unknown size becomes -1. This is a normal form: reshapes of one value to equal types are equal.

    >>> n, m = SymDim.named("n"), SymDim.named("m")
    >>> static_newshape((n, 12, 64), (n, 768))
    {'newshape': (0, 768), 'allowzero': False}
    >>> static_newshape((n * m, 8), (n, m, 8)) is None
    True
    """
    if any(dim == 0 and (i >= len(source) or source[i] != 0) for i, dim in enumerate(target)):
        return {"newshape": target, "allowzero": True} if is_static(target) else None
    newshape: list[int] = []
    for i, dim in enumerate(target):
        if isinstance(dim, int):
            newshape.append(dim)
        elif i in copied or (i < len(source) and same_dim(source[i], dim)):
            newshape.append(0)
        elif -1 not in newshape:
            newshape.append(-1)
        else:
            return None
    if -1 in newshape and 0 in target:
        return None
    return {"newshape": tuple(newshape), "allowzero": False}


def is_identity_reshape(data: TensorType, result: TensorType) -> bool:
    """Whether a reshape between these types keeps the shape: all sizes are equal, except at most one unknown size.

    >>> is_identity_reshape(TensorType((2, ANY)), TensorType((2, ANY)))
    True
    """
    if data.ndim != result.ndim or data.dtype != result.dtype:
        return False
    different = [i for i, (a, b) in enumerate(zip(data.shape, result.shape, strict=True)) if not same_dim(a, b)]
    return not different or (len(different) == 1 and 0 not in data.shape)
