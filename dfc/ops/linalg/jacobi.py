"""Jacobi's method: eigh of symmetric matrices and svd of tall ones, by rotations of pairs of rows or columns.

This is what targets without routines run, graphics processors say: all pairs of a step at once.

The pairs of one step are disjoint and are turned together: in round r of a sweep, i meets the j with i + j = r modulo
the odd number of players, as in a tournament. A sweep costs n^3 operations; four to eight are usual, `SWEEPS` the most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim
from dfc.ir.dtypes import BOOL, F64, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgAttributes, ArgSortAttributes, DiagonalAttributes, ReduceAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.regions import count_loop, while_loop
from dfc.ops.gradients import add, count_up, div, mul, select, sub
from dfc.ops.linalg.matrices import (
    FIRST,
    SECOND,
    Matrix,
    failing,
    filled_cotangents,
    identity,
    in_f64,
    is_wide,
    lying,
    matmul,
    require_matrix,
    require_square,
    some_matrix,
    square_samples,
    symmetric_matrix,
    symmetric_part,
    tall_unless_wide,
    turned,
    upright,
)
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.lowering.forms import Decompose
from dfc.ops.record import OpRecord, Parameter

Cotangents = Sequence[Value | None]
SWEEPS = 24
PRECISION = 2.0**-51
COLUMNS, ROWS = ReduceAttributes((0,)), ReduceAttributes((1,))
DIAGONAL = DiagonalAttributes(0, 1)


# -------------------------------------------------------------- rotations --


def _partners(b: Builder, size: Dim, round_: Value) -> Value:
    """Whom each of `size` players meets; itself if it has nobody to meet.

    An odd number m of players sits in a ring; if there is one more, it meets the one that would meet itself.
    """
    i = count_up(b, size)
    two = b.constant(2, I64)
    players = b.size(_sweeps(size))
    across = b.apply("mod", sub(b, round_, i), b.apply("maximum", players, b.constant(1, I64)))
    is_even = b.apply("equal", b.size(size % 2), b.constant(0, I64))
    alone = b.apply("equal", across, i)
    across = select(b, alone, select(b, is_even, players, i), across)
    half = b.apply("floordiv", add(b, players, b.constant(1, I64)), two)
    opposite = b.apply("mod", mul(b, round_, half), b.apply("maximum", players, b.constant(1, I64)))
    return select(b, b.apply("equal", i, players), opposite, across)


def _angle(b: Builder, partner: Value, mine: Value, theirs: Value, shared: Value) -> tuple[Value, Value]:
    """Cosine and sine (with opposite signs for the two of a pair) that make the shared element 0."""
    i = count_up(b, partner.tensor.shape[0])
    zero, one = b.constant(0, F64), b.constant(1, F64)
    idle = b.apply("or", b.apply("equal", partner, i), b.apply("equal", shared, zero))
    safe = select(b, idle, one, shared)
    ratio = div(b, sub(b, theirs, mine), add(b, safe, safe))
    first = select(b, b.apply("less", i, partner), one, b.apply("neg", one))
    sign = select(b, b.apply("equal", ratio, zero), first, b.apply("sign", ratio))
    size = b.apply("abs", ratio)
    tangent = div(b, sign, add(b, size, b.apply("hypot", size, one)))
    cosine = select(b, idle, one, b.apply("rsqrt", add(b, one, b.apply("square", tangent))))
    return cosine, select(b, idle, zero, mul(b, tangent, cosine))


def _turn_columns(b: Builder, x: Value, partner: Value, turn: tuple[Value, Value]) -> Value:
    other = b.apply("gather", x, partner, attributes=SECOND)
    return sub(b, mul(b, x, lying(b, turn[0])), mul(b, other, lying(b, turn[1])))


def _turn_rows(b: Builder, x: Value, partner: Value, turn: tuple[Value, Value]) -> Value:
    other = b.apply("gather", x, partner, attributes=FIRST)
    return sub(b, mul(b, x, upright(b, turn[0])), mul(b, other, upright(b, turn[1])))


def _sweeps(size: Dim) -> Dim:
    """The number of steps of a sweep, each of which rotates disjoint pairs."""
    return size - 1 + size % 2


# ------------------------------------------------------------------- eigh --


def _symmetric_step(b: Builder, a: Value, v: Value, round_: Value) -> tuple[Value, Value]:
    size = a.tensor.shape[0]
    partner = _partners(b, size, round_)
    positions = count_up(b, size)
    meets = b.apply("equal", upright(b, partner), lying(b, positions))
    zero = b.constant(0, F64)
    diagonal = b.apply("diagonal", a, attributes=DIAGONAL)
    shared = b.apply("sum", select(b, meets, a, zero), attributes=ROWS)
    theirs = b.apply("gather", diagonal, partner, attributes=FIRST)
    turn = _angle(b, partner, diagonal, theirs, shared)
    a = _turn_columns(b, _turn_rows(b, a, partner, turn), partner, turn)
    apart = b.apply("not_equal", upright(b, positions), lying(b, positions))
    return select(b, b.apply("and", meets, apart), zero, a), _turn_columns(b, v, partner, turn)


def _decompose_eigh(b: Builder, node: Node) -> Sequence[Value]:
    a = symmetric_part(b, in_f64(b, node.operands[0]))
    size = a.tensor.shape[0]
    positions = count_up(b, size)
    apart = b.apply("not_equal", upright(b, positions), lying(b, positions))
    whole = b.sum(b.apply("square", a), (0, 1))
    limit = mul(b, whole, b.constant(PRECISION**2, F64))

    def unfinished(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        off = select(inner, apart, inner.apply("square", carries[0]), inner.constant(0, F64))
        rest = inner.apply("greater", inner.sum(off, (0, 1)), limit)
        return (inner.apply("and", rest, inner.apply("less", carries[2], inner.constant(SWEEPS, I64))),)

    def sweep(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        def body(deep: Builder, k: Value, pair: Sequence[Value]) -> Sequence[Value]:
            return _symmetric_step(deep, pair[0], pair[1], k)

        turned_ = count_loop(inner, _sweeps(size), carries[:2], body)
        return (*turned_, add(inner, carries[2], inner.constant(1, I64)))

    a, v, _ = while_loop(b, (a, identity(b, size), b.constant(0, I64)), unfinished, sweep)
    values = b.apply("diagonal", a, attributes=DIAGONAL)
    order = b.apply("argsort", values, attributes=ArgSortAttributes(0, False, I64))
    values = b.apply("gather", values, order, attributes=FIRST)
    v = _with_signs(b, b.apply("gather", v, order, attributes=SECOND))
    return tuple(b.cast(x, node.operands[0].tensor.dtype) for x in (values, v))


def _with_signs(b: Builder, v: Value) -> Value:
    """Each column with the sign that makes its element of largest size positive."""
    return mul(b, v, lying(b, _signs(b, v)))


def _signs(b: Builder, v: Value) -> Value:
    if v.tensor.shape[0].constant == 0 or v.tensor.shape[1].constant == 0:
        return b.broadcast(b.constant(1, F64), (v.tensor.shape[1],))
    position = b.apply("argmax", b.apply("abs", v), attributes=ArgAttributes(0, I64))
    rows = upright(b, count_up(b, v.tensor.shape[0]))
    chosen = b.apply("equal", rows, lying(b, position))
    largest = b.apply("sum", select(b, chosen, v, b.constant(0, F64)), attributes=COLUMNS)
    return select(b, b.apply("less", largest, b.constant(0, F64)), b.constant(-1, F64), b.constant(1, F64))


def numpy_signs(v: Matrix) -> Matrix:
    """As `_signs`, in NumPy."""
    if not v.size:
        return np.ones(int(v.shape[1]))
    largest: Matrix = np.take_along_axis(v, np.argmax(np.abs(v), 0)[None], 0)[0]
    return np.asarray(np.where(largest < 0, -1.0, 1.0))


def _numpy_eigh(x: Matrix) -> list[Matrix]:
    eigen = np.linalg.eigh((x + x.T) / 2)
    values, v = np.asarray(eigen[0]), np.asarray(eigen[1])
    return [values, v * numpy_signs(v)]


def _infer_eigh(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    a = require_square(types)
    return (a.with_shape(a.shape[:1]), a)


def _gradient_eigh(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The symmetric part of V (diag(dw) + F o (V^T dV)) V^T with F[i, j] = 1 / (w[j] - w[i]) off the diagonal."""
    if all(dy is None for dy in cotangents):
        return (None,)
    values, v = node.results
    dw, dv = filled_cotangents(b, node, cotangents)
    inner = b.apply("diag", dw)
    if cotangents[1] is not None:
        gaps = _inverse_gaps(b, values)
        inner = add(b, inner, mul(b, gaps, matmul(b, turned(b, v), dv)))
    return (symmetric_part(b, matmul(b, matmul(b, v, inner), turned(b, v))),)


def _inverse_gaps(b: Builder, values: Value) -> Value:
    """[i, j]: 1 / (values[j] - values[i]), 0 on the diagonal."""
    gap = sub(b, lying(b, values), upright(b, values))
    positions = count_up(b, values.tensor.shape[0])
    same = b.apply("equal", upright(b, positions), lying(b, positions))
    assert same.tensor.dtype == BOOL
    one, zero = b.scalar_like(1, values), b.scalar_like(0, values)
    return select(b, same, zero, div(b, one, select(b, same, one, gap)))


register_stacked(
    OpRecord(
        name="eigh",
        family="product",
        summary=(
            "`let w, v = eigh(a)`: the eigenvalues of the symmetric part of `a`, ascending, and an eigenvector of "
            "each as a column, of length 1, its largest element positive. Gradients of v need different eigenvalues."
        ),
        signature="fn eigh[T: float, ..S, N](a: T[..S, N, N]) -> (w: T[..S, N], v: T[..S, N, N])",
        parameters=(Parameter("a"),),
        infer=_infer_eigh,
        evaluate=lambda operands, _a, _s: failing(_numpy_eigh, operands[0]),
        lowering=Decompose(_decompose_eigh, lambda _: "eigh"),
        constraints=("the element type of `a` is floating-point.", "`a` is a square matrix."),
        gradient=_gradient_eigh,
        samples=lambda: [
            *square_samples(symmetric_matrix),
            samples.sample(symmetric_matrix(6)),
            samples.sample(np.diag([3.0, -1.0, 0.5]), kind="edge"),
        ],
    )
)


# -------------------------------------------------------------------- svd --


def _column_step(b: Builder, u: Value, v: Value, round_: Value) -> tuple[Value, Value]:
    """Turns pairs of columns of u (and v) so that those of u become orthogonal."""
    partner = _partners(b, u.tensor.shape[1], round_)
    other = b.apply("gather", u, partner, attributes=SECOND)
    mine = b.apply("sum", b.apply("square", u), attributes=COLUMNS)
    theirs = b.apply("gather", mine, partner, attributes=FIRST)
    shared = b.apply("sum", mul(b, u, other), attributes=COLUMNS)
    turn = _angle(b, partner, mine, theirs, shared)
    return _turn_columns(b, u, partner, turn), _turn_columns(b, v, partner, turn)


def _decompose_svd(b: Builder, node: Node) -> Sequence[Value]:
    """Of a wide matrix the factors of its transpose, turned."""
    a, dtype = in_f64(b, node.operands[0]), node.operands[0].tensor.dtype
    u, s, v = _tall_svd(b, turned(b, a) if is_wide(a.tensor) else a)
    if is_wide(a.tensor):
        u, v = v, u
    return tuple(b.cast(x, dtype) for x in (u, s, turned(b, v)))


def _tall_svd(b: Builder, a: Value) -> tuple[Value, Value, Value]:
    """u, s and v."""
    size = a.tensor.shape[1]
    rounding = mul(b, b.cast(b.size(size), F64), b.constant(PRECISION, F64))
    limit = mul(b, b.sum(b.apply("square", a), (0, 1)), rounding)
    positions = count_up(b, size)
    apart = b.apply("not_equal", upright(b, positions), lying(b, positions))

    def unfinished(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        products = inner.apply("abs", matmul(inner, turned(inner, carries[0]), carries[0]))
        off = select(inner, apart, products, inner.constant(0, F64))
        rest = inner.apply("greater", inner.sum(off, (0, 1)), limit)
        return (inner.apply("and", rest, inner.apply("less", carries[2], inner.constant(SWEEPS, I64))),)

    def sweep(inner: Builder, carries: Sequence[Value]) -> Sequence[Value]:
        def body(deep: Builder, k: Value, pair: Sequence[Value]) -> Sequence[Value]:
            return _column_step(deep, pair[0], pair[1], k)

        turned_ = count_loop(inner, _sweeps(size), carries[:2], body)
        return (*turned_, add(inner, carries[2], inner.constant(1, I64)))

    u, v, _ = while_loop(b, (a, identity(b, size), b.constant(0, I64)), unfinished, sweep)
    lengths = b.apply("sqrt", b.apply("sum", b.apply("square", u), attributes=COLUMNS))
    order = b.apply("argsort", lengths, attributes=ArgSortAttributes(0, True, I64))
    lengths = b.apply("gather", lengths, order, attributes=FIRST)
    u, v = (b.apply("gather", x, order, attributes=SECOND) for x in (u, v))
    signs = _signs(b, v)
    u = div(b, mul(b, u, lying(b, signs)), lying(b, lengths))
    return u, lengths, mul(b, v, lying(b, signs))


def _numpy_svd(x: Matrix) -> list[Matrix]:
    u, lengths, across = np.linalg.svd(x, full_matrices=False)
    rows, columns = x.shape
    signs = numpy_signs(u if columns > rows else across.T)
    return [u * signs, lengths, across * signs[:, None]]


def _infer_svd(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    a = require_matrix(types)
    rows, size = a.shape
    if is_wide(a):
        return (a.with_shape((rows, rows)), a.with_shape((rows,)), a)
    return (a, a.with_shape((size,)), a.with_shape((size, size)))


def _transposed_cotangent(b: Builder, cotangent: Value | None) -> Value | None:
    return None if cotangent is None else turned(b, cotangent)


def _gradient_svd(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """(U (F o skew(U^T dU)) S + (I - U U^T) dU / S + U diag(ds) + U S (F o skew(V^T dV))) V^T.

    F[i, j] = 1 / (s[j]^2 - s[i]^2) off the diagonal, skew(x) = x - x^T.
    """
    if all(dy is None for dy in cotangents):
        return (None,)
    if is_wide(node.operands[0].tensor):
        across = b.node("svd", [turned(b, node.operands[0])])
        first, middle, last = (cotangents[0], cotangents[1], cotangents[2])
        (back,) = _gradient_svd(b, across, (_transposed_cotangent(b, last), middle, _transposed_cotangent(b, first)))
        return (_transposed_cotangent(b, back),)
    u, s, across = node.results
    du, ds, dv = filled_cotangents(b, node, cotangents)
    gaps, along = _inverse_gaps(b, b.apply("square", s)), lying(b, s)
    total = mul(b, u, lying(b, ds))
    if cotangents[0] is not None:
        inside = matmul(b, turned(b, u), du)
        twist = mul(b, gaps, sub(b, inside, turned(b, inside)))
        outside = div(b, sub(b, du, matmul(b, u, inside)), along)
        total = add(b, total, add(b, mul(b, matmul(b, u, twist), along), outside))
    if cotangents[2] is not None:
        inside = matmul(b, across, turned(b, dv))
        twist = mul(b, gaps, sub(b, inside, turned(b, inside)))
        total = add(b, total, matmul(b, mul(b, u, along), twist))
    return (matmul(b, total, across),)


register_stacked(
    OpRecord(
        name="svd",
        family="product",
        summary=(
            "`let u, s, vt = svd(a)`: u @ diag(s) @ vt = a with orthonormal columns of u and rows of vt, s descending; "
            "the largest element of each row of vt (of a wide `a`, of each column of u) is positive. Where an s is 0, "
            "its column of u is arbitrary or NaN. Gradients of u and vt need s that differ."
        ),
        signature=(
            "fn svd[T: float, ..S, M, N, K](a: T[..S, M, N]) -> (u: T[..S, M, K], s: T[..S, K], vt: T[..S, K, N])"
        ),
        parameters=(Parameter("a"),),
        infer=_infer_svd,
        evaluate=lambda operands, _a, _s: failing(_numpy_svd, operands[0]),
        lowering=Decompose(_decompose_svd, lambda _: "svd"),
        constraints=(
            "the element type of `a` is floating-point.",
            "`a` is a matrix.",
            "`a` has at least as many rows as columns, or is known to have fewer.",
        ),
        gradient=_gradient_svd,
        samples=lambda: [
            samples.sample(some_matrix(3, 3)),
            samples.sample(some_matrix(5, 2)),
            samples.sample(some_matrix(6, 5)),
            samples.sample(some_matrix(2, 4)),
            samples.sample(some_matrix(4, 3, np.float32)),
            samples.sample(some_matrix(1, 1), kind="edge"),
            samples.sample(np.zeros((3, 0)), kind="edge"),
            samples.sample(some_matrix(3, 1), kind="edge"),
            samples.sample(np.ones(3), kind="invalid"),
            samples.sample(np.ones((3, 2), np.int32), kind="invalid"),
        ],
        demands=tall_unless_wide,
    )
)
