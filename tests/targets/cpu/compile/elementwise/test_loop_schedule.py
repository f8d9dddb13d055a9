"""Lanes whose elements lie a few apart: what is read between them, and which axis they go along."""

import ctypes
import mmap

import numpy as np

from dfc.ir.dims import dim
from dfc.ir.dtypes import BF16, F32, F64, U8, DType
from dfc.kernels.body import Affine, Load
from dfc.kernels.form import LoopKernel
from dfc_target_cpu.elementwise.loop_schedule import plan_loops
from dfc_target_cpu.machine import MACHINES
from tests.support.programs import KernelMaker, Runner
from tests.targets.cpu.compile.elementwise.test_kernels import sample


def every_few(dtype: DType, step: int, at: int, extent: int | None = None) -> LoopKernel:
    """What lies `step` elements apart, from one of these on; of a second axis of the map, if there is one."""
    k = KernelMaker(2, {} if extent is None else {1: extent})
    operand = k.operand(dtype, (*k.over(0), dim(step)), "read")
    column = Affine((), dim(at)) if extent is None else Affine(((1, 1),), dim(at))
    value = k.body.append(Load(operand, (Affine(((0, 1),)), column)), (), dtype)
    return k.map(k.store(value, 0) if extent is None else k.store(value, 0, 1))


def before_a_hole(x: np.ndarray) -> np.ndarray:
    """A copy whose last byte is the last one that may be read."""
    page = mmap.PAGESIZE
    whole = -(-x.nbytes // page) * page
    memory = np.frombuffer(mmap.mmap(-1, whole + page), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(memory.ctypes.data + whole), page, 0) == 0
    copy = memory[whole - x.nbytes : whole].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def test_neighbours_that_lie_a_few_elements_apart_are_read_with_nothing_behind_the_last() -> None:
    cases = [(dtype, step) for dtype in (U8, BF16, F32, F64) for step in (1, 2, 3, 4, 7, 8, 9)]
    runner = Runner([every_few(dtype, step, step - 1) for dtype, step in cases])
    for number, (dtype, step) in enumerate(cases):
        for count in (0, 1, 15, 16, 64, 67, 128):
            x = before_a_hole(sample(dtype, count * step).reshape(count, step))
            out = np.zeros(count, dtype.numpy)
            assert runner.run(number, [x, out], [count, count]) == 0
            assert out.tobytes() == x[:, -1].tobytes(), (dtype, step, count)


def test_lanes_go_along_a_longer_axis_where_the_best_one_is_short() -> None:
    cases = [(dtype, step, extent) for dtype in (F32, F64) for step, extent in ((4, 2), (8, 4), (5, 3))]
    kernels = [every_few(dtype, step, step - extent, extent) for dtype, step, extent in cases]
    assert [plan_loops(kernel, MACHINES["x86-64-v4"]).vector for kernel in kernels] == [0] * len(cases)
    far = every_few(F32, 16, 0, 4)
    assert plan_loops(far, MACHINES["x86-64-v4"]).vector == 1
    runner = Runner(kernels)
    for number, (dtype, step, extent) in enumerate(cases):
        for count in (1, 16, 37):
            x = sample(dtype, count * step).reshape(count, step)
            out = np.zeros((count, extent), dtype.numpy)
            assert runner.run(number, [x, out], [count, count]) == 0
            assert out.tobytes() == np.ascontiguousarray(x[:, step - extent :]).tobytes(), (dtype, step, count)
