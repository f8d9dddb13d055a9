"""Sample operands for tests: regular, edge (0-d, empty, size 1, NaN ..) and invalid ones. Fixed, no random state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dtypes import BF16
from dfc.ops.record import Array, Sample

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Samples = Callable[[], Sequence[Sample]]
SPECIAL = (nan, inf, -inf, -0.0, 0.0, 1e-30, -1.5)


def numbers(shape: Sequence[int], dtype: DTypeLike = "float32", *, start: float = 0.0, positive: bool = False) -> Array:
    """Distinct numbers of mixed sign and size, never 0 for floats; small whole numbers for integer types."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    steps = np.arange(count, dtype=np.float64)
    if kind == np.bool_:
        return np.asarray((steps * 7 + start) % 3 < 1).reshape(shape)
    if kind.kind in "iu":
        whole = (steps * 5 + start) % 11 - (0 if kind.kind == "u" or positive else 5) + (1 if positive else 0)
        return whole.astype(kind).reshape(shape)
    waves = np.sin(steps * 2.3 + 0.7 + start) * (1 + 0.1 * (steps % 5)) + 0.013
    return (np.abs(waves) + 0.25 if positive else waves).astype(kind).reshape(shape)


def sample(*operands: Array, attributes: Attributes | None = None, kind: str = "regular") -> Sample:
    return Sample(operands, attributes if attributes is not None else NoAttributes(), kind)


def dtypes(bound: str) -> tuple[list[DTypeLike], list[DTypeLike]]:
    """Element types to sample, and some outside the class."""
    floats: list[DTypeLike] = [np.float32, np.float64, np.float16, BF16.numpy]
    whole: list[DTypeLike] = [np.int32, np.int64, np.int8, np.uint8]
    if bound == "bool":
        return [np.bool_], [np.float32, np.int32]
    if bound == "float":
        return floats, [np.int32, np.bool_, np.complex64]
    if bound == "int":
        return whole, [np.float32, np.bool_]
    if bound == "number":
        return floats + whole, [np.bool_, np.complex64]
    return [*floats, *whole, np.bool_], [np.complex64]


def unary(bound: str, *, positive: bool = False, scale: float = 1, offset: float = 0) -> Samples:
    """One operand of every element type of the class; floats are `offset + scale * x`, |x| below 1.5."""

    def some(shape: Sequence[int], dtype: DTypeLike) -> Array:
        x = numbers(shape, dtype, positive=positive)
        exact = scale == 1 and offset == 0
        return x if exact else np.asarray(x.astype(np.float64) * scale + offset).astype(np.dtype(dtype))

    def make() -> list[Sample]:
        inside, outside = dtypes(bound)
        cases = [sample(some((3, 4), d)) for d in inside]
        first = inside[0]
        cases += [sample(some((17,), first)), sample(some((2, 1, 3), first))]
        cases += [sample(some(s, first), kind="edge") for s in ((), (0,), (2, 0), (1,), (1, 1))]
        if np.float32 in inside:
            cases += [sample(np.array(SPECIAL, d), kind="edge") for d in (np.float32, np.float64, np.float16)]
        return cases + [sample(np.ones((2, 3), d), kind="invalid") for d in outside]

    return make


def binary(bound: str, *, positive: bool = False, safe_divisor: bool = False) -> Samples:
    """Two operands: equal shapes, the broadcasts that are allowed, and those that are refused."""
    second_positive = positive or safe_divisor

    def pair(a: tuple[int, ...], b: tuple[int, ...], dtype: DTypeLike, kind: str = "regular") -> Sample:
        x = numbers(a, dtype, positive=positive)
        y = numbers(b, dtype, start=1.1 if np.dtype(dtype).kind == "f" else 3, positive=second_positive)
        return sample(x, y, kind=kind)

    def make() -> list[Sample]:
        inside, outside = dtypes(bound)
        first = inside[0]
        cases = [pair((3, 4), (3, 4), d) for d in inside]
        cases += [pair(a, b, first) for a, b in (((2, 5), (5,)), ((5,), (2, 5)), ((3, 1), (1, 4)), ((), (7,)))]
        cases += [pair(a, b, first, "edge") for a, b in (((), ()), ((0,), ()), ((0, 3), (3,)), ((1,), (1,)))]
        cases.append(pair((2, 3, 1), (2, 1, 5), first, "edge"))
        if np.float32 in inside:
            grid = np.meshgrid(np.array(SPECIAL, np.float32), np.array(SPECIAL, np.float32))
            cases.append(sample(grid[0], grid[1], kind="edge"))
        cases += [pair((3,), (4,), first, "invalid"), pair((4,), (4, 1), first, "invalid")]
        cases.append(pair((2, 3), (2,), first, "invalid"))
        cases += [sample(np.ones(3, d), np.ones(3, d), kind="invalid") for d in outside]
        mixed = np.int32 if first == np.float32 or first == np.bool_ else np.float32
        return [*cases, sample(numbers((3,), first), numbers((3,), mixed), kind="invalid")]

    return make
