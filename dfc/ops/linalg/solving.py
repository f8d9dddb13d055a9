"""Linear equations: solve, by Gaussian elimination with partial pivoting, written as two loops over other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgAttributes, AxisAttributes
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_same_dtype
from dfc.ops.control.regions import Body, count_loop
from dfc.ops.gradients import count_up, div, mul, select, sub
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, narrow, widen
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]
FIRST, SECOND = AxisAttributes(0), AxisAttributes(1)


def _infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    require_same_dtype(types)
    require_rank(types, 0, (2,), "a square matrix")
    require_rank(types, 1, (1, 2), "a vector or a matrix on the right-hand side")
    a, b = types
    if not same_dim(a.shape[0], a.shape[1]):
        raise OpError("E0301", "`solve` needs a square matrix", blame=0, label=str(a))
    if not same_dim(a.shape[0], b.shape[0]):
        raise OpError(
            "E0301",
            "one number is needed for each equation",
            blame=1,
            label=f"{b.shape[0]} against {a.shape[0]} equations",
            operand_labels={0: str(a)},
        )
    return (b,)


def _evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    a, b = operands
    with np.errstate(all="ignore"):
        try:
            x: Numeric = np.linalg.solve(widen(a), widen(b) if b.ndim == 2 else widen(b)[:, None])
        except np.linalg.LinAlgError:
            return (np.full(b.shape, np.nan, b.dtype),)
    return (narrow(x.reshape(b.shape), b.dtype),)


def _column(b: Builder, x: Value) -> Value:
    return b.reshape(x, (x.tensor.shape[0], ONE))


def _row(b: Builder, x: Value, k: Value) -> Value:
    return b.apply("gather", x, k, attributes=FIRST)


def _outer(b: Builder, x: Value, y: Value) -> Value:
    return mul(b, _column(b, x), b.reshape(y, (ONE, y.tensor.shape[0])))


def _eliminate(b: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
    """Brings the largest pivot into row k and clears the column below it."""
    a, x = carries
    rows = count_up(b, a.tensor.shape[0])
    column = b.apply("abs", b.apply("gather", a, k, attributes=SECOND))
    candidates = select(b, b.apply("greater_equal", rows, k), column, b.scalar_like(-1, column))
    pivot = b.apply("argmax", candidates, attributes=ArgAttributes(0, I64))
    at_pivot = select(b, b.apply("equal", rows, pivot), k, rows)
    order = select(b, b.apply("equal", rows, k), pivot, at_pivot)
    a, x = (b.apply("gather", v, order, attributes=FIRST) for v in (a, x))
    row = _row(b, a, k)
    share = div(b, b.apply("gather", a, k, attributes=SECOND), _row(b, row, k))
    share = select(b, b.apply("greater", rows, k), share, b.scalar_like(0, a))
    return sub(b, a, _outer(b, share, row)), sub(b, x, _outer(b, share, _row(b, x, k)))


def _substitute(upper: Value) -> Body:
    """Row N - 1 - k is solved: divides it by its pivot and takes its share from the rows above."""

    def body(b: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        (x,) = carries
        size = upper.tensor.shape[0]
        rows, k = count_up(b, size), sub(b, b.size(size - 1), k)
        column = b.apply("gather", upper, k, attributes=SECOND)
        solved = div(b, _row(b, x, k), _row(b, column, k))
        share = select(b, b.apply("less", rows, k), column, b.scalar_like(0, upper))
        here = _column(b, b.apply("equal", rows, k))
        return (select(b, here, b.reshape(solved, (ONE, solved.tensor.shape[0])), sub(b, x, _outer(b, share, solved))),)

    return body


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    a, right = node.operands
    dtype, size = a.tensor.dtype, a.tensor.shape[0]
    if size.constant == 0:
        return (right,)
    working = a.tensor.machine.accumulator
    a, x = b.cast(a, working), b.cast(right, working)
    x = x if right.tensor.rank == 2 else _column(b, x)
    upper, x = count_loop(b, size, (a, x), _eliminate)
    (x,) = count_loop(b, size, (x,), _substitute(upper))
    return (b.cast(b.reshape(x, right.tensor.shape), dtype),)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """A^T g = dx gives the cotangent of the right-hand side; that of A is -g x^T."""
    (dx,) = cotangents
    if dx is None:
        return (None, None)
    g = b.apply("solve", b.transpose(node.operands[0], (1, 0)), dx)
    x = node.result
    if x.tensor.rank == 1:
        return (b.apply("neg", _outer(b, g, x)), g)
    return (b.apply("neg", b.apply("matmul", g, b.transpose(x, (1, 0)))), g)


def _samples() -> Sequence[Sample]:
    def case(size: int, right: tuple[int, ...], kind: str = "regular", dtype: DTypeLike = np.float64) -> Sample:
        matrix = samples.numbers((size, size), dtype) + 2 * np.eye(size, dtype=dtype)
        return samples.sample(matrix, samples.numbers(right, dtype, start=0.4), kind=kind)

    swap = np.array([[0.0, 1.0], [2.0, 0.0]])
    return [
        case(3, (3,)),
        case(4, (4, 2)),
        case(9, (9, 1), dtype=np.float32),
        samples.sample(swap, np.array([3.0, 4.0])),
        case(1, (1,), "edge"),
        case(0, (0,), "edge"),
        case(0, (0, 3), "edge"),
        samples.sample(np.ones((3, 2)), np.ones(3), kind="invalid"),
        case(3, (4,), "invalid"),
        samples.sample(np.ones(3), np.ones(3), kind="invalid"),
        case(3, (3,), "invalid", np.int32),
    ]


register_stacked(
    OpRecord(
        name="solve",
        family="product",
        summary=(
            "The x with a @ x = b, for one or several right-hand sides (the columns of `b`). Gaussian elimination with "
            "partial pivoting; every element of the result is infinite or NaN if a pivot is exactly 0."
        ),
        signature="fn solve[T: float, ..S, N, ..R](a: T[..S, N, N], b: T[..R]) -> T[..R]",
        parameters=(Parameter("a"), Parameter("b")),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose, lambda _: "solve"),
        constraints=(
            "the element types are equal and floating-point.",
            "`a` is a square matrix.",
            "`b` is a vector or matrix with as many rows as `a`.",
        ),
        gradient=_gradient,
        samples=_samples,
    )
)
