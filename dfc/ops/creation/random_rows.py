"""Random numbers of some rows: those that the undivided table has there.

    let x: f32[N, 4] = random(stream)   ->   let x: f32[n, 4] = random_at(4 * rows[row] + column, key..)

Assumes the numbers of the rows in the whole. Guarantees that nothing of the size of the table is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.dims import ONE, Dim, product
from dfc.ir.dtypes import I64, U64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import RandomAtAttributes, RandomAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.creation.philox import stream_key


def random_rows(output: Builder, node: Node, rows: Value, axis: int) -> Value:
    """The numbers of these rows along an axis."""
    how = node.attributes
    assert isinstance(how, RandomAttributes)
    elements = _elements(output, how.type.shape, rows, axis)
    key = [output.constant(np.uint64(word), U64) for word in (*stream_key(how.seed, how.stream), 0)]
    attributes = RandomAtAttributes(how.distribution, how.type.machine)
    return output.apply("random_at", elements, *key, attributes=attributes)


def _elements(output: Builder, shape: Sequence[Dim], rows: Value, axis: int) -> Value:
    """The row-major number, in the whole, of every element of the rows."""
    total: Value | None = None
    for each, size in enumerate(shape):
        if each == axis:
            indices = rows
        elif size == ONE:
            continue
        else:
            indices = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        stride = product(shape[each + 1 :])
        if stride != ONE:
            indices = output.apply("mul", indices, output.size(stride))
        count = indices.tensor.shape[0]
        term = output.reshape(indices, tuple(count if other == each else ONE for other in range(len(shape))))
        total = term if total is None else output.apply("add", total, term)
    assert total is not None
    return total
