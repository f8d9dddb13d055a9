"""Triangular factors: triangular_solve cholesky qr. One column an iteration, each with products over what is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ZERO
from dfc.ir.dtypes import F64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ReduceAttributes, TriangleAttributes, TriangularAttributes
from dfc.ops.binding import flag
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_same_dtype
from dfc.ops.control.regions import count_loop
from dfc.ops.gradients import add, count_up, div, mul, select, sub
from dfc.ops.linalg.matrices import (
    Matrix,
    column,
    failing,
    filled_cotangents,
    in_f64,
    is_wide,
    lying,
    matmul,
    outer,
    require_matrix,
    require_square,
    row,
    some_matrix,
    square_samples,
    tall_unless_wide,
    turned,
    upright,
    wide,
)
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import narrow
from dfc.ops.pieces import part
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]
WHOLE = ReduceAttributes((0, 1))


def _is_lower(attributes: Attributes) -> bool:
    assert isinstance(attributes, TriangularAttributes)
    return attributes.lower


def _infer_triangular(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    require_same_dtype(types)
    a = require_square(types[:1])
    require_rank(types, 1, (1, 2), "a vector or a matrix on the right-hand side")
    if not same_dim(a.shape[0], types[1].shape[0]):
        label = f"{types[1].shape[0]} against {a.shape[0]} equations"
        title = "one number is needed for each equation"
        raise OpError("E0301", title, blame=1, label=label, operand_labels={0: str(a)})
    return (types[1],)


def _evaluate_triangular(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    """Row by row."""
    a, right = wide(operands[0]), wide(operands[1])
    x: Matrix = np.zeros(right.shape)
    order = range(a.shape[0])
    with np.errstate(all="ignore"):
        for k in order if _is_lower(attributes) else reversed(order):
            done = slice(0, k) if _is_lower(attributes) else slice(k + 1, None)
            x[k] = (right[k] - a[k, done] @ x[done]) / a[k, k]
    return (narrow(x, operands[1].dtype),)


def _decompose_triangular(b: Builder, node: Node) -> Sequence[Value]:
    a, right = (in_f64(b, v) for v in node.operands)
    size, lower = a.tensor.shape[0], _is_lower(node.attributes)
    x = right if right.tensor.rank == 2 else upright(b, right)

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        """Divides row k by its pivot and takes its share from the rows that wait."""
        k = k if lower else sub(inner, inner.size(size - 1), k)
        rows, pillar = count_up(inner, size), column(inner, a, k)
        solved = div(inner, row(inner, carries[0], k), row(inner, pillar, k))
        waiting = inner.apply("greater" if lower else "less", rows, k)
        share = select(inner, waiting, pillar, inner.scalar_like(0, pillar))
        here = upright(inner, inner.apply("equal", rows, k))
        rest = sub(inner, carries[0], outer(inner, share, solved))
        return (select(inner, here, lying(inner, solved), rest),)

    (x,) = count_loop(b, size, (x,), body)
    return (b.cast(b.reshape(x, right.tensor.shape), node.result.tensor.dtype),)


def _gradient_triangular(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """A^T g = dx for the right-hand side; -g x^T within the triangle for the matrix."""
    (dx,) = cotangents
    if dx is None:
        return (None, None)
    lower = _is_lower(node.attributes)
    across = TriangularAttributes(not lower)
    g = b.apply("triangular_solve", turned(b, node.operands[0]), dx, attributes=across)
    x = node.result
    product = outer(b, g, x) if x.tensor.rank == 1 else matmul(b, g, turned(b, x))
    inside = b.apply("tril" if lower else "triu", product, attributes=TriangleAttributes())
    return b.apply("neg", inside), g


def _triangular_samples() -> Sequence[Sample]:
    def case(
        size: int, right: tuple[int, ...], lower: bool = True, kind: str = "regular", dtype: DTypeLike = np.float64
    ) -> Sample:
        operands = some_matrix(size, size, dtype), samples.numbers(right, dtype, start=0.4)
        return samples.sample(*operands, attributes=TriangularAttributes(lower), kind=kind)

    return [
        case(3, (3,)),
        case(4, (4, 2), False),
        case(3, (3, 1), dtype=np.float32),
        case(5, (5,), False),
        case(1, (1,), kind="edge"),
        case(0, (0,), kind="edge"),
        case(0, (0, 2), kind="edge"),
        case(3, (4,), kind="invalid"),
        case(3, (3,), kind="invalid", dtype=np.int32),
        samples.sample(np.ones((3, 2)), np.ones(3), attributes=TriangularAttributes(True), kind="invalid"),
    ]


register_stacked(
    OpRecord(
        name="triangular_solve",
        family="product",
        summary=(
            "The x with a @ x = b, where only the lower (or with `lower = false` the upper) triangle of `a` is read. "
            "Infinite or NaN where an element of the diagonal is 0."
        ),
        signature=(
            "fn triangular_solve[T: float, ..S, N, ..R](a: T[..S, N, N], b: T[..R], const lower: bool = true) -> T[..R]"
        ),
        parameters=(Parameter("a"), Parameter("b"), Parameter("lower", "const", "bool", "true")),
        infer=_infer_triangular,
        evaluate=_evaluate_triangular,
        lowering=Decompose(_decompose_triangular, lambda a: "solve_lower" if _is_lower(a) else "solve_upper"),
        attributes=TriangularAttributes,
        constraints=(
            "the element types are equal and floating-point.",
            "`a` is a square matrix.",
            "`b` is a vector or matrix with as many rows as `a`.",
        ),
        gradient=_gradient_triangular,
        samples=_triangular_samples,
        bind=lambda arguments, _types: TriangularAttributes(flag(arguments.get("lower", True), "lower")),
    )
)


def _decompose_cholesky(b: Builder, node: Node) -> Sequence[Value]:
    """Column k: what the columns before leave of that of `a`, over the root of its first element."""
    a = in_f64(b, node.operands[0])
    size = a.tensor.shape[0]

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        (factor,) = carries
        rows = count_up(inner, size)
        left = sub(inner, column(inner, a, k), matmul(inner, factor, row(inner, factor, k)))
        pillar = div(inner, left, inner.apply("sqrt", row(inner, left, k)))
        pillar = select(inner, inner.apply("greater_equal", rows, k), pillar, inner.scalar_like(0, left))
        here = lying(inner, inner.apply("equal", rows, k))
        return (select(inner, here, upright(inner, pillar), factor),)

    nothing = b.broadcast(b.constant(0, F64), a.tensor.shape)
    (factor,) = count_loop(b, size, (nothing,), body)
    fine = b.apply("is_finite", b.apply("sum", factor, attributes=WHOLE))
    factor = select(b, fine, factor, b.constant(float("nan"), F64))
    return (b.cast(factor, node.result.tensor.dtype),)


def _gradient_cholesky(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """S = L^-T P L^-1, where P is the lower triangle of L^T dL with its diagonal halved; only the lower triangle of
    `a` was read, so the gradient of an element below the diagonal counts twice."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    factor = node.result
    across, upper = turned(b, factor), TriangularAttributes(False)
    p = _half_diagonal(b, b.apply("tril", matmul(b, across, dy), attributes=TriangleAttributes()))
    left = b.apply("triangular_solve", across, p, attributes=upper)
    s = b.apply("triangular_solve", across, turned(b, left), attributes=upper)
    both = b.apply("tril", add(b, s, turned(b, s)), attributes=TriangleAttributes())
    return (_half_diagonal(b, both),)


def _half_diagonal(b: Builder, x: Value) -> Value:
    positions = count_up(b, x.tensor.shape[0])
    diagonal = b.apply("equal", upright(b, positions), lying(b, positions))
    return mul(b, x, select(b, diagonal, b.scalar_like(0.5, x), b.scalar_like(1, x)))


def _positive_definite(size: int, dtype: DTypeLike) -> Array:
    x: Matrix = some_matrix(size, size)
    return (x @ x.T + np.eye(size)).astype(np.dtype(dtype))


register_stacked(
    OpRecord(
        name="cholesky",
        family="product",
        summary=(
            "The lower triangular L with L @ transpose(L) = a, which is symmetric and positive definite; of it "
            "only the lower triangle is read. All elements are NaN if there is no such L."
        ),
        signature="fn cholesky[T: float, ..S, N](a: T[..S, N, N]) -> T[..S, N, N]",
        parameters=(Parameter("a"),),
        infer=lambda types, _a: (require_square(types),),
        evaluate=lambda operands, _a, _s: failing(lambda x: [np.linalg.cholesky(x)], operands[0]),
        lowering=Decompose(_decompose_cholesky, lambda _: "cholesky"),
        constraints=("the element type of `a` is floating-point.", "`a` is a square matrix."),
        gradient=_gradient_cholesky,
        samples=lambda: [
            *square_samples(_positive_definite),
            samples.sample(np.array([[1.0, 2.0], [2.0, 1.0]]), kind="edge"),
        ],
    )
)


def _infer_qr(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    a = require_matrix(types)
    rows, columns = a.shape
    if is_wide(a):
        return (a.with_shape((rows, rows)), a)
    return (a, a.with_shape((columns, columns)))


def _signed_qr(x: Matrix) -> list[Matrix]:
    """The factors with a positive diagonal of r."""
    q, r = np.linalg.qr(x)
    signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return [q * signs, r * signs[:, None]]


def _decompose_qr(b: Builder, node: Node) -> Sequence[Value]:
    """Gram and Schmidt, twice for each column, which leaves the columns orthogonal to the last digits."""
    whole = in_f64(b, node.operands[0])
    rows, columns = node.results[0].tensor.shape
    a = part(b, whole, 1, ZERO, columns) if is_wide(whole.tensor) else whole  # q is that of the first columns

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        (q,) = carries
        left = column(inner, a, k)
        for _ in range(2):
            left = sub(inner, left, matmul(inner, q, matmul(inner, turned(inner, q), left)))
        length = inner.apply("sqrt", inner.sum(inner.apply("square", left), (0,)))
        here = lying(inner, inner.apply("equal", count_up(inner, columns), k))
        return (select(inner, here, upright(inner, div(inner, left, length)), q),)

    (q,) = count_loop(b, columns, (b.broadcast(b.constant(0, F64), (rows, columns)),), body)
    r = b.apply("triu", matmul(b, turned(b, q), whole), attributes=TriangleAttributes())
    return tuple(b.cast(v, node.operands[0].tensor.dtype) for v in (q, r))


def _gradient_wide_qr(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The rest of r is q^T times the rest of a, whose gradients reach q too."""
    a = node.operands[0]
    rows, columns = a.tensor.shape
    dq, dr = filled_cotangents(b, node, cotangents)
    rest, r_cotangents = (part(b, x, 1, rows, columns - rows) for x in (a, dr))
    square = b.node("qr", [part(b, a, 1, ZERO, rows)])
    dq = add(b, dq, matmul(b, rest, turned(b, r_cotangents)))
    (first,) = _gradient_qr(b, square, (dq, part(b, dr, 1, ZERO, rows)))
    assert first is not None
    return (b.concat([first, matmul(b, square.results[0], r_cotangents)], 1),)


def _gradient_qr(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """(dQ + Q sym(R dR^T - dQ^T Q)) R^-T, where sym mirrors the lower triangle."""
    if all(dy is None for dy in cotangents):
        return (None,)
    if is_wide(node.operands[0].tensor):
        return _gradient_wide_qr(b, node, cotangents)
    q, r = node.results
    dq, dr = filled_cotangents(b, node, cotangents)
    m = sub(b, matmul(b, r, turned(b, dr)), matmul(b, turned(b, dq), q))
    below = b.apply("tril", m, attributes=TriangleAttributes(-1))
    mirrored = add(b, b.apply("tril", m, attributes=TriangleAttributes()), turned(b, below))
    total = add(b, dq, matmul(b, q, mirrored))
    back = b.apply("triangular_solve", r, turned(b, total), attributes=TriangularAttributes(False))
    return (turned(b, back),)


register_stacked(
    OpRecord(
        name="qr",
        family="product",
        summary=(
            "`let q, r = qr(a)`: q @ r = a, the columns of q are orthonormal, r is upper triangular with a positive "
            "diagonal. Where the columns of `a` (of a wide one, the first that make a square) are not independent, "
            "those of q are arbitrary or NaN."
        ),
        signature="fn qr[T: float, ..S, M, N](a: T[..S, M, N]) -> (q: T[..S, M, min(M, N)], r: T[..S, min(M, N), N])",
        parameters=(Parameter("a"),),
        infer=_infer_qr,
        evaluate=lambda operands, _a, _s: failing(_signed_qr, operands[0]),
        lowering=Decompose(_decompose_qr, lambda _: "qr"),
        constraints=(
            "the element type of `a` is floating-point.",
            "`a` is a matrix.",
            "`a` has at least as many rows as columns, or is known to have fewer.",
        ),
        gradient=_gradient_qr,
        samples=lambda: [
            samples.sample(some_matrix(3, 3)),
            samples.sample(some_matrix(5, 2)),
            samples.sample(some_matrix(4, 3, np.float32)),
            samples.sample(some_matrix(2, 4)),
            samples.sample(some_matrix(1, 1), kind="edge"),
            samples.sample(np.zeros((3, 0)), kind="edge"),
            samples.sample(some_matrix(3, 1), kind="edge"),
            samples.sample(np.ones(3), kind="invalid"),
            samples.sample(np.ones((3, 2), np.int32), kind="invalid"),
        ],
        demands=tall_unless_wide,
    )
)
