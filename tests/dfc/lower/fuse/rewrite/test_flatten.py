"""Element-wise nodes behind a product take its shape, and leave nothing behind."""

from __future__ import annotations

import numpy as np

from dfc.ir.dtypes import F32
from dfc.ir.types import tensor
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import kernels
from dfc.lower.fuse.rewrite.flatten import flatten
from dfc.ops.attributes import ShapeAttributes
from tests.support.lowering import agree
from tests.support.making import Making


def test_only_what_is_read_in_the_end_is_reshaped_back() -> None:
    m = Making()
    x, w = m.feed("x", tensor(F32, 6, 4)), m.feed("w", tensor(F32, 4, 5))
    shape = tensor(F32, 2, 3, 5).shape
    product = m.op("reshape", m.op("matmul", x, w), attributes=ShapeAttributes(shape))
    graph = m.graph(m.op("tanh", m.op("exp", m.op("sin", product))))
    nodes = [node.op for node in flatten(graph.entries["e"].block).nodes]
    assert nodes == ["matmul", "sin", "exp", "tanh", "reshape"]
    generator = np.random.default_rng(1)
    values = {name: generator.standard_normal(size).astype(np.float32) for name, size in (("x", (6, 4)), ("w", (4, 5)))}
    agree(graph, values)
    (only,) = (part.kernel for part in kernels(fuse(graph).entries[0].block))
    assert len(only.operands) == 3
