"""What gradient rows share: arithmetic on graph values, and the backward pass through broadcasting."""

from __future__ import annotations

from dfc.ir.dims import ONE, Dim
from dfc.ir.dtypes import BOOL, I64, DType
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxesAttributes, TypeAttributes
from dfc.ops.builder import Builder


def add(b: Builder, x: Value, y: Value) -> Value:
    return b.apply("add", x, y)


def sub(b: Builder, x: Value, y: Value) -> Value:
    return b.apply("sub", x, y)


def mul(b: Builder, x: Value, y: Value) -> Value:
    return b.apply("mul", x, y)


def div(b: Builder, x: Value, y: Value) -> Value:
    return b.apply("div", x, y)


def scaled(b: Builder, x: Value, factor: float) -> Value:
    return b.apply("mul", x, b.scalar_like(factor, x))


def select(b: Builder, mask: Value, x: Value, y: Value) -> Value:
    return b.apply("select", mask, x, y)


def indicator(b: Builder, mask: Value, like: Value) -> Value:
    """1 where the mask holds, else 0, in the element type of `like`."""
    assert mask.tensor.dtype == BOOL
    return b.cast(mask, like.tensor.dtype)


def unbroadcast(b: Builder, gradient: Value, shape: tuple[Dim, ...]) -> Value:
    """Sums a cotangent over the axes along which an operand of this shape was repeated."""
    extra = gradient.tensor.rank - len(shape)
    if extra:
        gradient = b.sum(gradient, tuple(range(extra)))
    stretched = [
        axis
        for axis, (have, want) in enumerate(zip(gradient.tensor.shape, shape, strict=True))
        if want == ONE and have != ONE
    ]
    return b.sum(gradient, stretched, keep_dims=True) if stretched else gradient


def with_axes(b: Builder, x: Value, axes: tuple[int, ...], rank: int) -> Value:
    """Puts axes of size 1 back where a reduction removed them (`rank` is that of the result)."""
    remaining = iter(x.tensor.shape)
    return b.reshape(x, tuple(ONE if axis in axes else next(remaining) for axis in range(rank)))


def reverse(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    return b.apply("reverse", x, attributes=AxesAttributes(axes))


def widened(b: Builder, x: Value) -> Value:
    """f16 and bf16 as f32: for counts, totals and logarithms that the narrow type cannot hold."""
    dtype = x.tensor.dtype
    return b.cast(x, dtype.accumulator) if isinstance(dtype, DType) else x


def count_up(b: Builder, size: Dim) -> Value:
    """0, 1, .. as i64."""
    return b.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
