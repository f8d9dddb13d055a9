"""pivots: what Gaussian elimination with partial pivoting divides by. Programs get it through determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import F64, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import ArgAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.regions import count_loop
from dfc.ops.gradients import count_up, div, select, sub
from dfc.ops.linalg.matrices import (
    FIRST,
    Matrix,
    column,
    in_f64,
    outer,
    require_square,
    row,
    some_matrix,
    square_samples,
    wide,
)
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import narrow
from dfc.ops.record import Array, OpRecord, Parameter, Sizes


def _infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    a = require_square(types)
    return (a.with_shape(a.shape[:1]),)


def _evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x: Matrix = wide(operands[0])
    result: Matrix = np.zeros(len(x))
    with np.errstate(all="ignore"):
        for k in range(len(x)):
            best = k + int(np.argmax(np.abs(x[k:, k])))
            x[[k, best]] = x[[best, k]]
            result[k] = x[k, k] if best == k else -x[k, k]
            if x[k, k] != 0:
                x[k + 1 :] -= np.outer(x[k + 1 :, k] / x[k, k], x[k])
    return (narrow(result, operands[0].dtype),)


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    a = in_f64(b, node.operands[0])
    size, dtype = a.tensor.shape[0], node.result.tensor.dtype
    if size.constant == 0:
        return (b.broadcast(b.cast(b.constant(0, F64), dtype), (size,)),)

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        (x,) = carries
        rows = count_up(inner, size)
        is_left = inner.apply("greater_equal", rows, k)
        candidates = select(inner, is_left, inner.apply("abs", column(inner, x, k)), inner.scalar_like(-1, x))
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
        return sub(inner, x, outer(inner, share, here)), signed

    return (b.cast(count_loop(b, size, (a,), body)[1], dtype),)


register_stacked(
    OpRecord(
        name="pivots",
        family="product",
        summary=(
            "What elimination with the largest pivot of each column divides by, with the other sign where rows were "
            "exchanged for it: their product is the determinant."
        ),
        signature="fn pivots[T: float, ..S, N](a: T[..S, N, N]) -> T[..S, N]",
        parameters=(Parameter("a"),),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose, lambda _: "pivots"),
        constraints=("the element type of `a` is floating-point.", "`a` is a square matrix."),
        no_gradient="determinants have gradients of their own",
        samples=lambda: square_samples(lambda size, dtype: some_matrix(size, size, dtype)),
        in_prelude=False,
    )
)
