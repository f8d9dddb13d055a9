"""Ops of single matrices for stacks of them: leading axes, over which the op is done matrix by matrix.

Assumes a record whose first operand is one matrix, and whose other operand (if any) is a vector or matrix beside it.
Guarantees a record that means the same for single ones; with leading axes, equal for all operands, every result has
these in front. One matrix is worked on at a time, in a loop; so is the backward pass, which computes the op again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, product
from dfc.ir.dtypes import from_numpy
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ops.attributes import AxisAttributes
from dfc.ops.broadcasting import same_shape
from dfc.ops.builder import Builder
from dfc.ops.control.regions import count_loop
from dfc.ops.linalg.rules import factorisation
from dfc.ops.lowering.forms import Decompose
from dfc.ops.record import Array, OpError, OpRecord, Sample, Sizes
from dfc.ops.registry import register

Cotangents = Sequence[Value | None]
Shape = tuple[Dim, ...]
MATRIX = 2
FIRST = AxisAttributes(0)


def register_stacked(record: OpRecord, *, rewrites_stacks: bool = False) -> OpRecord:
    """Registers the record for stacks of matrices; `rewrites_stacks`: what it is made of takes whole stacks."""
    lowering = record.lowering
    assert isinstance(lowering, Decompose)
    several = len([p for p in record.parameters if p.kind == "tensor"]) > 1
    matching = ("the leading axes of both operands are the same.",) if several else ()

    def infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        return _infer(record, types, attributes)

    def evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
        return _evaluate(record, operands, attributes, sizes)

    def rewrite(b: Builder, node: Node) -> Sequence[Value]:
        return lowering.rewrite(b, node) if rewrites_stacks else _decompose(lowering.rewrite, b, node)

    def gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        return _gradient(record, b, node, cotangents)

    def demands(types: Sequence[TensorType], attributes: Attributes) -> Sequence[tuple[Dim, Dim]]:
        return record.demands([_single(t, _leading(types)) for t in types], attributes)

    return register(
        replace(
            record,
            summary=f"{record.summary} With leading axes it is that of each matrix.",
            constraints=(*record.constraints, *matching),
            infer=infer,
            evaluate=evaluate,
            lowering=Decompose(rewrite, lowering.routine),
            gradient=None if record.gradient is None else gradient,
            samples=lambda: _samples(record),
            demands=demands,
            rules=replace(record.rules, cost=factorisation, saved_for_backward=True),
        )
    )


def _leading(types: Sequence[TensorType]) -> Shape:
    """The axes in front of the matrices."""
    return types[0].shape[:-MATRIX]


def _single(type_: TensorType, leading: Shape) -> TensorType:
    return type_.with_shape(type_.shape[len(leading) :])


def _infer(record: OpRecord, types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    leading = _leading(types)
    for number, other in enumerate(types[1:], 1):
        if not same_shape(other.shape[: len(leading)], leading):
            raise OpError(
                "E0301",
                "both operands of `{op}` need the same leading axes",
                blame=number,
                label=str(other),
                operand_labels={0: str(types[0])},
            )
    results = record.infer([_single(t, leading) for t in types], attributes)
    return [t.with_shape((*leading, *t.shape)) for t in results]


def _evaluate(record: OpRecord, operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    leading = operands[0].shape[:-MATRIX]
    if not leading:
        return record.evaluate(operands, attributes, sizes)
    rows = [
        record.evaluate([np.asarray(x[index]) for x in operands], attributes, sizes) for index in np.ndindex(*leading)
    ]
    types = record.infer([_type_of(x.dtype, x.shape[len(leading) :]) for x in operands], attributes)
    results: list[Array] = []
    for number, type_ in enumerate(types):
        shape = [size.evaluate(sizes) for size in type_.shape]
        stack = np.zeros((len(rows), *shape), type_.machine.numpy)
        for position, row in enumerate(rows):
            stack[position] = row[number]
        results.append(stack.reshape(*leading, *shape))
    return results


def _type_of(dtype: np.dtype[np.generic], shape: Sequence[int]) -> TensorType:
    known = from_numpy(dtype)
    assert known is not None, dtype
    return tensor(known, *shape)


# ------------------------------------------------------------------- loops --


def _each(
    b: Builder,
    leading: Shape,
    stacks: Sequence[Value],
    work: Callable[[Builder, Sequence[Value]], Sequence[Value]],
) -> Sequence[Value]:
    """What `work` makes of one matrix of each stack, for all of them."""
    count = product(leading)
    flat = [b.reshape(x, (count, *x.tensor.shape[len(leading) :])) for x in stacks]

    def body(inner: Builder, k: Value, _carries: Sequence[Value]) -> Sequence[Value]:
        return work(inner, [inner.apply("gather", x, k, attributes=FIRST) for x in flat])

    stacked = count_loop(b, count, (), body)
    return [b.reshape(x, (*leading, *x.tensor.shape[1:])) for x in stacked]


def _decompose(rewrite: Callable[[Builder, Node], Sequence[Value]], b: Builder, node: Node) -> Sequence[Value]:
    leading = _leading([v.tensor for v in node.operands])
    if not leading:
        return rewrite(b, node)
    return _each(b, leading, node.operands, lambda inner, x: inner.node(node.op, x, node.attributes).results)


def _gradient(record: OpRecord, b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    assert record.gradient is not None
    own = record.gradient
    leading = _leading([v.tensor for v in node.operands])
    if not leading:
        return own(b, node, cotangents)
    present = [dy for dy in cotangents if dy is not None]
    if not present:
        return (None,) * len(node.operands)
    count = len(node.operands)

    def work(inner: Builder, x: Sequence[Value]) -> Sequence[Value]:
        single = inner.node(node.op, x[:count], node.attributes)
        cotangent_rows = iter(x[count:])
        back = own(inner, single, [next(cotangent_rows) if dy is not None else None for dy in cotangents])
        assert all(gradient is not None for gradient in back), node.op
        return [gradient for gradient in back if gradient is not None]

    return _each(b, leading, (*node.operands, *present), work)


# ----------------------------------------------------------------- samples --


def _samples(record: OpRecord) -> Sequence[Sample]:
    """Those of single matrices, stacks made of some of them, and stacks that do not fit."""
    single = record.samples()
    regular = [sample for sample in single if sample.kind == "regular"]
    first, second = regular[0], regular[1]
    stacks = [_stacked(first, (2,)), _stacked(second, (1, 3)), replace(_stacked(first, (0,)), kind="edge")]
    apart = (_stacked(first, (2,)).operands[0], *(x for x in first.operands[1:]))
    wrong = [replace(first, operands=apart, kind="invalid")] if len(apart) > 1 else []
    return [*single, *stacks, *wrong]


def _stacked(sample: Sample, leading: tuple[int, ...]) -> Sample:
    """Multiples of the operands, one above the other."""
    count = int(np.prod(leading))
    factors = [1.0 + 0.25 * number for number in range(count)]
    operands: list[Array] = []
    for x in sample.operands:
        stack = np.zeros((count, *x.shape), x.dtype)
        for number, factor in enumerate(factors):
            stack[number] = (x.astype(np.float64) * factor).astype(x.dtype)
        operands.append(stack.reshape(*leading, *x.shape))
    return replace(sample, operands=tuple(operands))
