"""Parts of a stack are written where they lie in it, each when it has been computed."""

from __future__ import annotations

import numpy as np

from dfc.driver.pipeline import optimise
from dfc.ir.dims import dim
from dfc.kernels.body import Affine
from dfc.kernels.form import ContractKernel, LoopKernel
from dfc.kernels.program import BufferRole, Launch
from tests.support.building import graph_of
from tests.support.lowering import agree

STACKED = """dfg 1

readonly entry e(x: f32[8, 4], w: f32[4, 4]) -> (y: f32[3, 8, 4]) {
  let first = tanh(x)
  let second = tanh(first @ w)
  return stack([first, second, second @ w])
}
"""


def test_a_stack_is_written_part_by_part_before_later_parts_exist_and_never_copied() -> None:
    feeds = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), "w": np.eye(4, dtype=np.float32) - 0.5}
    program, _ = agree(optimise(graph_of(STACKED)), feeds)
    (entry,) = (each for each in program.entries if each.name == "e")
    launches = [step for step in entry.steps if isinstance(step, Launch)]
    (stack,) = (number for number, buffer in enumerate(entry.buffers) if buffer.role is BufferRole.RESULT)
    assert [launch.names[0] for launch in launches] == ["e/first", "e/second/matmul", "e/y/matmul"], "nothing but these"
    for part, launch in enumerate(launches):
        kernel = program.kernels[launch.kernel]
        slot = launch.buffers.index(stack)
        assert kernel.operands[slot].access == "write", "what is in it is never asked for"
        if isinstance(kernel, ContractKernel):
            stores = kernel.stores
        else:
            assert isinstance(kernel, LoopKernel)
            stores = kernel.stages[0].stores
        (store,) = (each for each in stores if each.operand == slot)
        assert store.index[0] == Affine((), dim(part))
    arena = [buffer.name for buffer in entry.buffers if buffer.role is BufferRole.ARENA]
    assert arena == ["e/first", "e/second"], "the last part is nowhere but in the stack"
