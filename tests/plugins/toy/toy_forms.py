"""Ops of another package that read memory elsewhere, or multiply: each says how, and fusion does the rest.

Nothing is copied for a view, what follows a contraction is part of its kernel, and both cost one record.
"""

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import TypeAttributes
from dfc.ops.binding import tensor_type
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_rank, require_size
from dfc.ops.gradients import indicator, mul, sub
from dfc.ops.linalg.rules import CONTRACTION
from dfc.ops.lowering.forms import Contract, ContractAxes, Generator, MaskedView, Pick, Picked, View
from dfc.ops.lowering.index_maps import added, along, scaled
from dfc.ops.record import Array, OpRecord, Parameter, Sizes
from dfc.ops.registry import register

Types = Sequence[TensorType]
Cotangents = Sequence[Value | None]


def sheared(types: Types, _attributes: Attributes) -> Types:
    require_rank(types, 0, (2,), "a matrix")
    rows, columns = types[0].shape
    require_size(rows - columns + 1, 0, "the number of rows")
    return (types[0].with_shape((rows - columns + 1, columns)),)


def evaluate_shear(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    (x,) = operands
    rows = x.shape[0] - x.shape[1] + 1
    return (np.stack([x[column : column + rows, column] for column in range(x.shape[1])], 1),)


def shear_gradient(b: Builder, _node: Node, cotangents: Cotangents) -> Cotangents:
    return [None if dy is None else b.apply("unshear", dy, b.scalar_like(0, dy)) for dy in cotangents]


register(
    OpRecord(
        name="shear",
        family="shape",
        summary="Each column one row further down than the one before: `shear(x)[i, j]` is `x[i + j, j]`.",
        signature="fn shear[T: any, N, M, R](x: T[N, M]) -> T[R, M]",
        parameters=(Parameter("x"),),
        infer=sheared,
        evaluate=evaluate_shear,
        lowering=View(lambda _node: (added(along(0), along(1)), along(1))),
        demands=lambda types, _attributes: [(types[0].shape[1] - 1, types[0].shape[0])],
        gradient=shear_gradient,
    )
)


def evaluate_unshear(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, fill = operands
    result = np.full((x.shape[0] + x.shape[1] - 1, x.shape[1]), fill, x.dtype)
    for column in range(x.shape[1]):
        result[column : column + x.shape[0], column] = x[:, column]
    return (result,)


def unshear_gradient(b: Builder, _node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    dx = b.apply("shear", dy)
    return (dx, sub(b, b.sum(dy, (0, 1)), b.sum(dx, (0, 1))))


register(
    OpRecord(
        name="unshear",
        family="shape",
        summary="The opposite of `shear`, with `fill` above and below each column.",
        signature="fn unshear[T: any, N, M, R](x: T[N, M], fill: T) -> T[R, M]",
        parameters=(Parameter("x"), Parameter("fill")),
        infer=lambda types, _attributes: (
            types[0].with_shape((types[0].shape[0] + types[0].shape[1] - 1, types[0].shape[1])),
        ),
        evaluate=evaluate_unshear,
        lowering=MaskedView(
            lambda _node: (added(along(0), scaled(along(1), -1)), along(1)),
            steps=lambda _node: [(0, 1)],
        ),
        gradient=unshear_gradient,
    )
)


def one_each_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    x, ids = node.operands
    if dy is None:
        return (None, None)
    rows, columns = x.tensor.shape
    numbers = b.node("iota", (), TypeAttributes(TensorType(ids.tensor.dtype, (columns,)))).result
    column = b.apply("mod", ids, b.cast(b.size(columns), ids.tensor.dtype))
    is_one = b.apply("equal", b.reshape(column, (rows, dim(1))), b.reshape(numbers, (dim(1), columns)))
    return (mul(b, indicator(b, is_one, x), b.reshape(dy, (rows, dim(1)))), None)


register(
    OpRecord(
        name="one_each",
        family="indexing",
        summary="One element of each row: `one_each(x, ids)[i]` is `x[i, ids[i]]`.",
        signature="fn one_each[T: any, I: int, N, M](x: T[N, M], ids: I[N]) -> T[N]",
        parameters=(Parameter("x"), Parameter("ids")),
        infer=lambda types, _attributes: (types[0].with_shape(types[0].shape[:1]),),
        evaluate=lambda operands, _attributes, _sizes: (operands[0][np.arange(len(operands[1])), operands[1]],),
        lowering=Pick(lambda _node: (along(0), Picked(1, (along(0),)))),
        gradient=one_each_gradient,
        no_gradient="ids are whole numbers",
    )
)
register(
    OpRecord(
        name="distance",
        family="source",
        summary="How far each element is from the diagonal: |i - j|.",
        signature="fn distance[T: number, N, M](const type_: tensor_type) -> T[N, M]",
        parameters=(Parameter("type", "type"),),
        attributes=TypeAttributes,
        bind=lambda arguments, _types: TypeAttributes(tensor_type(arguments.get("type"), "type")),
        infer=lambda _types, attributes: (attributes.type,),
        evaluate=lambda _operands, attributes, sizes: (
            np.abs(np.subtract.outer(*(np.arange(size.evaluate(sizes)) for size in attributes.type.shape))).astype(
                attributes.type.machine.numpy
            ),
        ),
        lowering=Generator(
            lambda body, position, node: body.cast(
                body.apply("abs", body.apply("sub", *position)), node.result.tensor.machine
            )
        ),
        no_gradient="it has no operands",
    )
)


def times_transposed_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dz,) = cotangents
    x, y = node.operands
    return (None, None) if dz is None else (b.apply("matmul", dz, y), b.apply("matmul", b.transpose(dz, (1, 0)), x))


register(
    OpRecord(
        name="times_transposed",
        family="product",
        summary="The product of a matrix with the rows of another: x @ transpose(y).",
        signature="fn times_transposed[T: float, N, M, K](x: T[N, K], y: T[M, K]) -> T[N, M]",
        parameters=(Parameter("x"), Parameter("y")),
        infer=lambda types, _attributes: (types[0].with_shape((types[0].shape[0], types[1].shape[0])),),
        evaluate=lambda operands, _attributes, _sizes: (operands[0] @ operands[1].T,),
        lowering=Contract(lambda _node: ContractAxes(left=(0, 2), right=(1, 2))),
        gradient=times_transposed_gradient,
        rules=CONTRACTION,
    )
)
