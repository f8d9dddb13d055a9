"""Which kernels may hang together along rows."""

from __future__ import annotations

from dfc.driver.pipeline import optimise
from dfc.kernels.form import ROW_BLOCKS, ContractKernel, RowBlockKernel
from dfc.kernels.program import Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.fuse.fuse import fuse
from dfc.lower.schedule.schedule import schedule
from tests.support.building import graph_of

CONVOLUTIONS = """dfg 1

readonly entry f(x: f32[8, 56, 56, 64], a: f32[SIZE, SIZE, 64, 64], b: f32[1, 1, 64, 256], c: f32[1, 1, 256, 64])
    -> f32[8, 56, 56, 64] {
  let y = relu(conv2d(x, a, pad = PAD))
  return conv2d(relu(conv2d(y, b)), c)
}
"""


def program(size: int) -> Program:
    text = CONVOLUTIONS.replace("SIZE", str(size)).replace("PAD", str(size // 2))
    return assign_buffers(schedule(fuse(optimise(graph_of(text)), forms=[ROW_BLOCKS])))


def contractions(program: Program) -> list[int]:
    """How many products each kernel makes."""
    steps = [
        [step.kernel for step in kernel.steps] if isinstance(kernel, RowBlockKernel) else [kernel]
        for kernel in program.kernels
    ]
    return sorted(sum(isinstance(one, ContractKernel) for one in each) for each in steps)


def test_a_convolution_over_several_elements_stays_a_kernel_of_its_own() -> None:
    assert contractions(program(3)) == [1, 2]


def test_one_over_single_elements_is_a_product_like_any_other() -> None:
    assert contractions(program(1)) == [3]
