"""Matrix products: matmul (`@`). 1-d operands are rows or columns as in NumPy; batch axes must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, product
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.broadcasting import same_dim, same_shape
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_same_dtype
from dfc.ops.linalg.rules import CONTRACTION
from dfc.ops.lowering.forms import Contract, ContractAxes
from dfc.ops.numeric import narrow, widen
from dfc.ops.record import EXPRESSION, OPERATOR, Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def _inner(a: TensorType, b: TensorType) -> bool:
    return a.rank > 0 and b.rank > 0 and same_dim(a.shape[-1], b.shape[-2 if b.rank > 1 else 0])


def _product(a: TensorType, b: TensorType) -> TensorType | None:
    """The type of `a @ b` if the shapes fit."""
    batched = a.rank > 2 and b.rank > 2
    if not _inner(a, b) or (batched and not same_shape(a.shape[:-2], b.shape[:-2])):
        return None
    if (a.rank > 2) != (b.rank > 2) and 1 not in (a.rank, b.rank):
        return None
    batch = a.shape[:-2] if a.rank > 2 else b.shape[:-2]
    rows = a.shape[-2:-1] if a.rank > 1 else ()
    columns = b.shape[-1:] if b.rank > 1 else ()
    return a.with_shape((*batch, *rows, *columns))


def _infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_same_dtype(types)
    a, b = types
    for number, type_ in enumerate(types):
        if type_.rank == 0:
            raise OpError("E0301", "`@` needs matrices or vectors", blame=number, label=f"{type_} is a single number",
                          helps=("write `{0 grouped} * {1 grouped}`",), replaces={0: EXPRESSION})  # fmt: skip
    result = _product(a, b)
    if result is None:
        raise _misfit(a, b)
    return (result,)


def _misfit(a: TensorType, b: TensorType) -> OpError:
    if _inner(a, b):
        label = f"batch axes of {a} against {b}"
        note = "the axes before the last two must be equal; only matrices without them are shared"
        help_: tuple[str, ...] = ()
    else:
        label = f"{a.shape[-1]} against {b.shape[-2 if b.rank > 1 else 0]}"
        note = "in `a @ b`, the last axis of `a` must equal the first matrix axis of `b`"
        swapped = _product(b, a)
        help_ = () if swapped is None else (f"`{{1 grouped}} @ {{0 grouped}}` does multiply, and gives {swapped}",)
    return OpError(
        "E0301",
        "these shapes do not multiply",
        blame=OPERATOR,
        label=label,
        notes=(note,),
        helps=help_,
        replaces=dict.fromkeys(range(len(help_)), EXPRESSION),
        operand_labels={0: str(a), 1: str(b)},
    )


def build_matmul(builder: Builder, operands: Sequence[Value], _arguments: Arguments) -> Value:
    """`a @ b`; a matrix meets a batch of matrices by flattening the batch, or by being repeated."""
    a, b = operands
    s, t = a.tensor, b.tensor
    mixed = s.dtype == t.dtype and min(s.rank, t.rank) == 2 and max(s.rank, t.rank) > 2 and _inner(s, t)
    if mixed and t.rank == 2:
        rows = builder.reshape(a, (product(s.shape[:-1]), s.shape[-1]))
        result = builder.apply("matmul", rows, b)
        return builder.reshape(result, (*s.shape[:-1], t.shape[-1]))
    if mixed:
        a = builder.broadcast(a, (*t.shape[:-2], *s.shape))
    return builder.apply("matmul", a, b)


def _axes(node: Node) -> ContractAxes:
    a, b = (value.tensor.rank for value in node.operands)
    summed = node.result.tensor.rank
    batch = tuple(range(max(a, b, 2) - 2))
    rows, columns = range(len(batch), len(batch) + (a > 1)), range(summed - (b > 1), summed)
    left = (*batch, *rows, summed) if a > 1 else (summed,)
    right = (*batch, summed, *columns) if b > 1 else (summed,)
    return ContractAxes(left, right)


def _evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    a, b = operands
    with np.errstate(all="ignore"):
        return (narrow(np.matmul(widen(a), widen(b)), a.dtype),)


def _flip(b: Builder, x: Value) -> Value:
    """The last two axes exchanged."""
    rank = x.tensor.rank
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """dx = dy y^T and dy = x^T dy, with vectors as one row or one column."""
    (dz,) = cotangents
    if dz is None:
        return (None, None)
    x, y = node.operands
    s, t, batch = x.tensor, y.tensor, node.result.tensor.shape
    batch = batch[: max(s.rank, t.rank) - 2] if max(s.rank, t.rank) > 2 else ()
    left = x if s.rank > 1 else b.reshape(x, (ONE, s.shape[0]))
    right = y if t.rank > 1 else b.reshape(y, (t.shape[0], ONE))
    dz = b.reshape(dz, (*batch, left.tensor.shape[-2], right.tensor.shape[-1]))
    return (_left(b, dz, right, s), _right(b, dz, left, t))


def _left(b: Builder, dz: Value, right: Value, target: TensorType) -> Value:
    """The cotangent of the left factor: dz[.., M, N] right[.., K, N]^T."""
    if right.tensor.rank == dz.tensor.rank:
        full = b.apply("matmul", dz, _flip(b, right))
    else:
        columns, size = dz.tensor.shape[:-1], right.tensor.shape[-2]
        flat = b.apply("matmul", b.reshape(dz, (product(columns), dz.tensor.shape[-1])), _flip(b, right))
        full = b.reshape(flat, (*columns, size))
    return _without_batch(b, full, target)


def _right(b: Builder, dz: Value, left: Value, target: TensorType) -> Value:
    """The cotangent of the right factor: left[.., M, K]^T dz[.., M, N]."""
    if left.tensor.rank < dz.tensor.rank:
        left = b.broadcast(left, (*dz.tensor.shape[:-2], *left.tensor.shape))
    return _without_batch(b, b.apply("matmul", _flip(b, left), dz), target)


def _without_batch(b: Builder, full: Value, target: TensorType) -> Value:
    """A factor that is a vector was shared by the batch: the sum over it."""
    if target.rank == 1 and full.tensor.rank > 2:
        full = b.sum(full, tuple(range(full.tensor.rank - 2)))
    return b.reshape(full, target.shape)


def _samples() -> Sequence[Sample]:
    def case(a: tuple[int, ...], b: tuple[int, ...], kind: str = "regular", dtype: DTypeLike = np.float32) -> Sample:
        return samples.sample(samples.numbers(a, dtype), samples.numbers(b, dtype, start=1.7), kind=kind)

    shapes = [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 5))]
    shapes += [((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((17, 33), (33, 9)), ((2, 2, 3, 1), (2, 2, 1, 3))]
    empty = [((0, 4), (4, 5)), ((3, 0), (0, 5)), ((1, 1), (1, 1)), ((0,), (0,)), ((1, 7), (7, 1))]
    wrong = [((3, 4), (3, 5)), ((), (3,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (3, 4, 5)), ((4,), (5,))]
    cases = [case(a, b) for a, b in shapes] + [case(a, b, "edge") for a, b in empty]
    cases += [case((3, 4), (4, 2), dtype=d) for d in (np.float64, np.float16, np.int32, np.int64, np.uint8)]
    cases += [case(a, b, "invalid") for a, b in wrong]
    mixed = samples.sample(samples.numbers((2, 2)), samples.numbers((2, 2), np.float64), kind="invalid")
    return [*cases, mixed, case((2, 2), (2, 2), "invalid", np.bool_)]


register(
    OpRecord(
        name="matmul",
        family="product",
        summary=(
            "The matrix product `a @ b`: the last axis of `a` against the last but one of `b`. A vector on the left is "
            "a row, on the right a column. Axes before are a batch and must be equal. f16 and bf16 accumulate in f32."
        ),
        signature="fn matmul[T: number, ..A, ..B, ..C](a: T[..A], b: T[..B]) -> T[..C]",
        parameters=(Parameter("a"), Parameter("b")),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Contract(_axes),
        constraints=(
            "the element types are equal and a number type.",
            "neither operand is a single number.",
            "the inner sizes are equal.",
            "with two operands of three or more axes, the batch axes are equal.",
            "the node: a matrix meets no batch (a call flattens or repeats it).",
        ),
        gradient=_gradient,
        samples=_samples,
        operator="@",
        build=build_matmul,
        rules=CONTRACTION,
    )
)
