"""What is little work to compute from a value behind a product is computed again; what is more lies in memory."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32
from dfc.ir.graph import Graph, Value
from dfc.ir.types import tensor
from dfc.kernels.body import Apply
from dfc.kernels.form import ContractKernel
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import kernels
from tests.support.lowering import agree
from tests.support.making import Making

B = Symbol("B")
SHAPES = {"x": (3, 16), "w": (16, 32), "bias": (32,), "v": (32, 16), "dy": (3, 16), "u": (16, 32), "mask": (3, 32)}


class Layer:
    """A product with a bias, and another one whose kernel reads what follows the first one."""

    def __init__(self) -> None:
        self.m = Making()
        sizes = {name: (B, *shape[1:]) if shape[0] == 3 else shape for name, shape in SHAPES.items()}
        self.feeds = {name: self.m.feed(name, tensor(F32, *shape)) for name, shape in sizes.items()}
        self.p = self.op("add", self.op("matmul", self.feeds["x"], self.feeds["w"]), self.feeds["bias"])
        self.q = self.op("matmul", self.feeds["dy"], self.feeds["u"])

    def op(self, op: str, *operands: Value) -> Value:
        return self.m.op(op, *operands)

    def number(self, value: float) -> Value:
        return self.m.constant(value, F32)

    def times(self, *values: Value) -> Value:
        first, *rest = values
        for value in rest:
            first = self.op("mul", first, value)
        return first

    def kernels(self, active: Value, gradient: Value) -> list[ContractKernel]:
        """Those of the first two products, which compute something besides; results are those of the definition."""
        graph: Graph = self.m.graph(self.op("matmul", active, self.feeds["v"]), gradient, dims=[B])
        generator = np.random.default_rng(1)
        values = {name: generator.uniform(0.1, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()}
        agree(graph, values, sizes={"B": 3})
        found = [part.kernel for part in kernels(fuse(graph).entries[0].block)]
        return [kernel for kernel in found if isinstance(kernel, ContractKernel) and operations(kernel)]


def test_the_gradient_of_gelu_reads_two_values_and_computes_the_rest_again() -> None:
    x = Layer()
    half, one, cubic = x.op("mul", x.p, x.number(0.5)), x.number(1.0), x.number(0.04)
    inner = x.times(x.p, x.p, cubic)
    slope = x.op("tanh", x.op("add", x.p, x.op("mul", inner, x.p)))
    share = x.op("add", slope, one)
    active = x.op("mul", half, share)
    rest = x.op("sub", one, x.op("mul", slope, slope))
    gradient = x.op("add", x.times(x.q, share), x.times(x.q, half, rest, inner))
    first, second = x.kernels(active, gradient)
    assert len(first.stores) == 3, "the product, tanh, and what the next product reads"
    assert len(second.operands) == 2 + 2 + 1, "its factors, the product and tanh, and the result"


@pytest.mark.parametrize("heavy", ["exp", "sqrt", "tanh"])
def test_what_is_much_work_is_computed_once(heavy: str) -> None:
    x = Layer()
    value = x.op(heavy, x.op("mul", x.p, x.p))
    first, second = x.kernels(x.op("add", value, x.number(1.0)), x.times(x.q, value))
    assert heavy in operations(first)
    assert operations(second) == {"mul"}


def test_what_comes_from_two_arrays_is_computed_once() -> None:
    x = Layer()
    value = x.op("mul", x.p, x.feeds["mask"])
    _, second = x.kernels(x.op("add", value, x.number(1.0)), x.times(x.q, value))
    assert len(second.operands) == 2 + 1 + 1, "its factors, the value, and the result"


def operations(kernel: ContractKernel) -> set[str]:
    applied = (instruction.operation for instruction in kernel.epilogue)
    return {operation.function for operation in applied if isinstance(operation, Apply)}
