"""Diagonals and triangles of matrices: diagonal diag tril triu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, dim, minimum
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, DiagonalAttributes, TriangleAttributes
from dfc.ops.binding import integer, normalised_axis
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_class, require_size
from dfc.ops.gradients import add, count_up, mul, select
from dfc.ops.lowering.forms import Decompose
from dfc.ops.pieces import in_front, part, surrounded
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import MOVES_ELEMENTS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def _diagonal(attributes: Attributes) -> DiagonalAttributes:
    assert isinstance(attributes, DiagonalAttributes)
    return attributes


def _length(rows: Dim, columns: Dim, offset: int) -> Dim:
    return minimum(rows, columns - offset) if offset >= 0 else minimum(rows + offset, columns)


def _infer_diagonal(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    it, x = _diagonal(attributes), types[0]
    if x.rank < 2:
        raise OpError("E0313", "`{op}` needs a matrix", blame=0, label=f"{x} has fewer than 2 axes")
    require_axes((it.rows, it.columns), x)
    size = _length(x.shape[it.rows], x.shape[it.columns], it.offset)
    require_size(size, "offset", "the size of the diagonal")
    others = tuple(d for axis, d in enumerate(x.shape) if axis not in (it.rows, it.columns))
    return (x.with_shape((*others, size)),)


def _evaluate_diagonal(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    it = _diagonal(attributes)
    return (np.array(np.diagonal(operands[0], it.offset, it.rows, it.columns)),)


def _last_two(x: Value, it: DiagonalAttributes) -> tuple[int, ...]:
    """The order of axes with rows and columns at the end."""
    others = [axis for axis in range(x.tensor.rank) if axis not in (it.rows, it.columns)]
    return (*others, it.rows, it.columns)


def _decompose_diagonal(b: Builder, node: Node) -> Sequence[Value]:
    """Every (columns + 1)-th element of the matrix as one row."""
    (x,), it = node.operands, _diagonal(node.attributes)
    order = _last_two(x, it)
    x = b.transpose(x, order) if order != tuple(range(x.tensor.rank)) else x
    *others, rows, columns = x.tensor.shape
    size = node.result.tensor.shape[-1]
    flat = b.reshape(x, (*others, rows * columns))
    first = dim(it.offset) if it.offset >= 0 else -it.offset * columns
    if columns.constant is not None:
        return (part(b, flat, len(others), first if size.constant != 0 else 0, size, columns.constant + 1),)
    steps = add(b, mul(b, count_up(b, size), b.size(columns + 1)), b.size(first))
    return (b.apply("gather", flat, steps, attributes=AxisAttributes(len(others))),)


def _on_diagonal(b: Builder, rows: Dim, columns: Dim, offset: int) -> Value:
    """[rows, columns]: true where column - row = offset."""
    down = b.reshape(count_up(b, rows), (rows, ONE))
    along = b.reshape(count_up(b, columns), (ONE, columns))
    return b.apply("equal", add(b, down, b.constant(offset, I64)), along)


def _gradient_diagonal(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    (x,), it = node.operands, _diagonal(node.attributes)
    order = _last_two(x, it)
    *others, size = dy.tensor.shape
    rows, columns = x.tensor.shape[it.rows], x.tensor.shape[it.columns]
    low = max(0, -it.offset)
    scaled = b.reshape(surrounded(b, dy, len(others), low, rows - size - low), (*others, rows, ONE))
    mask = in_front(b, _on_diagonal(b, rows, columns, it.offset), x.tensor.rank)
    full = select(b, mask, scaled, b.scalar_like(0, dy))
    undo = tuple(sorted(range(x.tensor.rank), key=order.__getitem__))
    return (b.transpose(full, undo) if undo != tuple(range(x.tensor.rank)) else full,)


def _bind_diagonal(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    rank = types[0].rank
    rows = normalised_axis(integer(arguments.get("rows", -2 if rank > 1 else 0), "rows"), rank, "rows")
    columns = normalised_axis(integer(arguments.get("columns", -1), "columns"), rank, "columns")
    return DiagonalAttributes(rows, columns, integer(arguments.get("offset", 0), "offset"))


def _diagonal_samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...],
        rows: int,
        columns: int,
        offset: int = 0,
        kind: str = "regular",
        dtype: DTypeLike = "float32",
    ) -> Sample:
        attributes = DiagonalAttributes(rows, columns, offset)
        return samples.sample(samples.numbers(shape, dtype), attributes=attributes, kind=kind)

    return [
        case((3, 3), 0, 1),
        case((3, 5), 0, 1, 1),
        case((5, 3), 0, 1, -1),
        case((2, 3, 4), 1, 2),
        case((3, 2, 3), 0, 2),
        case((3, 4), 1, 0, -2),
        case((3, 3), 0, 1, dtype=np.int32),
        case((2, 2), 0, 1, dtype=np.bool_),
        case((1, 1), 0, 1, kind="edge"),
        case((0, 0), 0, 1, kind="edge"),
        case((2, 2), 0, 1, 2, kind="edge"),
        case((3,), 0, 0, kind="invalid"),
        case((3, 3), 0, 0, kind="invalid"),
        case((3, 3), 0, 2, kind="invalid"),
        case((2, 2), 0, 1, 5, kind="invalid"),
    ]


register(
    OpRecord(
        name="diagonal",
        family="shape",
        summary=(
            "The elements of each matrix whose column is its row plus `offset`, as the last axis. The matrices are the "
            "last two axes unless `rows` and `columns` say otherwise."
        ),
        signature=(
            "fn diagonal[T: any, ..S, ..R]"
            "(x: T[..S], const offset: int = 0, const rows: int = -2, const columns: int = -1) -> T[..R]"
        ),
        parameters=(
            Parameter("x"),
            Parameter("offset", "const", "int", "0"),
            Parameter("rows", "const", "int", "-2"),
            Parameter("columns", "const", "int", "-1"),
        ),
        infer=_infer_diagonal,
        evaluate=_evaluate_diagonal,
        lowering=Decompose(_decompose_diagonal),
        attributes=DiagonalAttributes,
        constraints=("`x` has two axes or more.", "`rows` and `columns` are different axes.", "the diagonal exists."),
        gradient=_gradient_diagonal,
        samples=_diagonal_samples,
        bind=_bind_diagonal,
        rules=MOVES_ELEMENTS,
    )
)


def _infer_diag(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    x = types[0]
    if not x.rank:
        raise OpError("E0313", "`{op}` needs a vector", blame=0, label=f"{x} has no axes")
    return (x.with_shape((*x.shape, x.shape[-1])),)


def _evaluate_diag(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x = operands[0]
    result = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    for index in range(x.shape[-1]):
        result[..., index, index] = x[..., index]
    return (result,)


def _decompose_diag(b: Builder, node: Node) -> Sequence[Value]:
    (x,) = node.operands
    size = x.tensor.shape[-1]
    columns = b.reshape(x, (*x.tensor.shape, ONE))
    mask = in_front(b, _on_diagonal(b, size, size, 0), x.tensor.rank + 1)
    return (select(b, mask, columns, b.scalar_like(0, x)),)


def _gradient_diag(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    rank = dy.tensor.rank
    return (b.apply("diagonal", dy, attributes=DiagonalAttributes(rank - 2, rank - 1)),)


register(
    OpRecord(
        name="diag",
        family="shape",
        summary="Matrices with the vectors along the last axis as diagonals, and 0 elsewhere.",
        signature="fn diag[T: number, ..S, N](x: T[..S, N]) -> T[..S, N, N]",
        parameters=(Parameter("x"),),
        infer=_infer_diag,
        evaluate=_evaluate_diag,
        lowering=Decompose(_decompose_diag),
        constraints=("the element type of `x` is a number type.", "`x` has an axis."),
        gradient=_gradient_diag,
        samples=lambda: [
            *(samples.sample(samples.numbers((3,), d)) for d in (np.float32, np.float64, np.int32)),
            samples.sample(samples.numbers((2, 3, 4))),
            samples.sample(samples.numbers((0,)), kind="edge"),
            samples.sample(samples.numbers((2, 1)), kind="edge"),
            samples.sample(samples.numbers(()), kind="invalid"),
            samples.sample(np.array([True]), kind="invalid"),
        ],
        rules=MOVES_ELEMENTS,
    )
)


def _triangle(attributes: Attributes) -> int:
    assert isinstance(attributes, TriangleAttributes)
    return attributes.offset


def _infer_triangle(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    if types[0].rank < 2:
        raise OpError("E0313", "`{op}` needs a matrix", blame=0, label=f"{types[0]} has fewer than 2 axes")
    return (types[0],)


def _keep(b: Builder, x: Value, comparison: str, offset: int) -> Value:
    """x where `column comparison row + offset`, else 0."""
    rows, columns = x.tensor.shape[-2:]
    down = add(b, b.reshape(count_up(b, rows), (rows, ONE)), b.constant(offset, I64))
    inside = b.apply(comparison, b.reshape(count_up(b, columns), (ONE, columns)), down)
    return select(b, inside, x, b.scalar_like(0, x))


def _register_triangle(name: str, words: str, comparison: str, keep: Callable[[Array, int], Array]) -> None:
    def case(shape: tuple[int, ...], offset: int = 0, kind: str = "regular", dtype: DTypeLike = "float32") -> Sample:
        attributes = TriangleAttributes(offset)
        return samples.sample(samples.numbers(shape, dtype), attributes=attributes, kind=kind)

    register(
        OpRecord(
            name=name,
            family="shape",
            summary=f"The part of each matrix {words} the diagonal that is `offset` to the right; 0 elsewhere.",
            signature=f"fn {name}[T: number, ..S](x: T[..S], const offset: int = 0) -> T[..S]",
            parameters=(Parameter("x"), Parameter("offset", "const", "int", "0")),
            infer=_infer_triangle,
            evaluate=lambda operands, a, _s: (keep(operands[0], _triangle(a)),),
            lowering=Decompose(lambda b, node: (_keep(b, node.operands[0], comparison, _triangle(node.attributes)),)),
            attributes=TriangleAttributes,
            constraints=("the element type of `x` is a number type.", "`x` has two axes or more."),
            gradient=lambda b, node, cotangents: [
                None if dy is None else b.apply(name, dy, attributes=node.attributes) for dy in cotangents
            ],
            samples=lambda: [
                case((3, 3)),
                case((3, 4), 1),
                case((4, 3), -1),
                case((2, 3, 3), dtype=np.float64),
                case((3, 3), dtype=np.int32),
                case((0, 3), kind="edge"),
                case((1, 1), 5, kind="edge"),
                case((3,), kind="invalid"),
                case((2, 2), kind="invalid", dtype=np.bool_),
            ],
            bind=lambda arguments, _types: TriangleAttributes(integer(arguments.get("offset", 0), "offset")),
            rules=MOVES_ELEMENTS,
        )
    )


_register_triangle("tril", "on and below", "less_equal", lambda x, k: np.asarray(np.tril(x, k)))
_register_triangle("triu", "on and above", "greater_equal", lambda x, k: np.asarray(np.triu(x, k)))
