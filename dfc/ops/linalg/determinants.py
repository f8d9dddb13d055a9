"""inverse, determinant and log_determinant, by elimination with the largest pivot of each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import F64, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.regions import count_loop
from dfc.ops.gradients import add, count_up, div, mul, select, sub
from dfc.ops.linalg.matrices import (
    FIRST,
    Matrix,
    column,
    failing,
    identity,
    in_f64,
    matmul,
    outer,
    require_square,
    row,
    some_matrix,
    square_samples,
    turned,
)
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.record import Array, Decompose, OpRecord, Parameter, Sizes

Cotangents = Sequence[Value | None]
CONSTRAINTS = ("the element type of `a` is floating-point.", "`a` is a square matrix.")


def _infer_same(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (require_square(types),)


def _infer_number(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (require_square(types).with_shape(()),)


def _decompose_inverse(b: Builder, node: Node) -> Sequence[Value]:
    (a,) = node.operands
    inverse = b.apply("solve", in_f64(b, a), identity(b, a.tensor.shape[0]))
    return (b.cast(inverse, a.tensor.dtype),)


def _gradient_inverse(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """-Y^T dY Y^T."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    across = turned(b, node.result)
    return (b.apply("neg", matmul(b, matmul(b, across, dy), across)),)


register_stacked(
    OpRecord(
        name="inverse",
        family="product",
        summary=(
            "The inverse of a square matrix; every element is infinite or NaN if a pivot is exactly 0. To multiply by "
            "an inverse, `solve` is faster and closer."
        ),
        signature="fn inverse[T: float, ..S, N](a: T[..S, N, N]) -> T[..S, N, N]",
        parameters=(Parameter("a"),),
        infer=_infer_same,
        evaluate=lambda operands, _a, _s: failing(lambda x: [np.linalg.inv(x)], operands[0]),
        lowering=Decompose(_decompose_inverse),
        constraints=CONSTRAINTS,
        gradient=_gradient_inverse,
        samples=lambda: square_samples(lambda size, dtype: some_matrix(size, size, dtype)),
    )
)


def _eliminated(b: Builder, a: Value, start: float, fold: Callable[[Builder, Value, Value], Value]) -> Value:
    """Combines the pivots, each with the sign of its exchange of rows."""
    size = a.tensor.shape[0]
    if size.constant == 0:
        return b.constant(start, F64)

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        x, total = carries
        rows = count_up(inner, size)
        candidates = select(
            inner,
            inner.apply("greater_equal", rows, k),
            inner.apply("abs", column(inner, x, k)),
            inner.scalar_like(-1, x),
        )
        best = inner.apply("argmax", candidates, attributes=ArgAttributes(0, I64))
        order = select(inner, inner.apply("equal", rows, best), k, rows)
        order = select(inner, inner.apply("equal", rows, k), best, order)
        x = inner.apply("gather", x, order, attributes=FIRST)
        here = row(inner, x, k)
        pivot = inner.apply("gather", here, k, attributes=FIRST)
        nothing, one = inner.scalar_like(0, x), inner.scalar_like(1, x)
        safe = select(inner, inner.apply("equal", pivot, nothing), one, pivot)
        share = div(inner, column(inner, x, k), safe)
        share = select(inner, inner.apply("greater", rows, k), share, nothing)
        signed = select(inner, inner.apply("equal", best, k), pivot, inner.apply("neg", pivot))
        return sub(inner, x, outer(inner, share, here)), fold(inner, total, signed)

    return count_loop(b, size, (in_f64(b, a), b.constant(start, F64)), body)[1]


def _log_size(b: Builder, total: Value, pivot: Value) -> Value:
    return add(b, total, b.apply("log", b.apply("abs", pivot)))


def _over_inverse(b: Builder, node: Node, dy: Value) -> Value:
    """dy A^-T."""
    across = turned(b, b.apply("inverse", node.operands[0]))
    return mul(b, across, dy)


def _gradient_determinant(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else _over_inverse(b, node, mul(b, dy, node.result)),)


def _gradient_log(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else _over_inverse(b, node, dy),)


def _log_determinant(x: Matrix) -> Matrix:
    return np.asarray(np.linalg.slogdet(x)[1])


def _register_number(
    name: str,
    summary: str,
    meaning: Callable[[Matrix], Matrix],
    start: float,
    fold: Callable[[Builder, Value, Value], Value],
    gradient: Callable[[Builder, Node, Cotangents], Cotangents],
) -> None:
    def evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        return failing(lambda x: [meaning(x)], operands[0])

    def decompose(b: Builder, node: Node) -> Sequence[Value]:
        a = node.operands[0]
        return (b.cast(_eliminated(b, a, start, fold), a.tensor.dtype),)

    register_stacked(
        OpRecord(
            name=name,
            family="product",
            summary=summary,
            signature=f"fn {name}[T: float, ..S, N](a: T[..S, N, N]) -> T[..S]",
            parameters=(Parameter("a"),),
            infer=_infer_number,
            evaluate=evaluate,
            lowering=Decompose(decompose),
            constraints=CONSTRAINTS,
            gradient=gradient,
            samples=lambda: [
                *square_samples(lambda size, dtype: some_matrix(size, size, dtype)),
                samples.sample(np.array([[0.0, 1.0, 2.0], [3.0, 0.5, 0.0], [1.0, 0.0, 1.0]])),
            ],
        )
    )


_register_number(
    "determinant",
    "The determinant of a square matrix, 1 of an empty one. Its slope is NaN or infinite where it is 0.",
    lambda x: np.asarray(np.linalg.det(x)),
    1,
    mul,
    _gradient_determinant,
)
_register_number(
    "log_determinant",
    "The logarithm of the size of the determinant, without overflow; -inf of a singular matrix.",
    _log_determinant,
    0,
    _log_size,
    _gradient_log,
)
