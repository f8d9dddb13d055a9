"""Ordered kernels: prefix sums that read back what they wrote, scatters that add in the order of the ids."""

import numpy as np

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I32, I64, DType
from dfc.kernels.body import Affine, Computed, Load, Mask
from dfc.kernels.form import LoopKernel, Operand, Stage, Store
from tests.support.programs import KernelMaker, Runner, axis_index
from tests.targets.cpu.compile.elementwise.test_kernels import sample


def scan(axes: tuple[int, ...]) -> LoopKernel:
    """Running sums along kernel axis 1 (the last), of an array whose axes are the kernel's in this order."""
    k = KernelMaker(2)
    x = k.load(F32, *axes)
    out = k.operand(F32, k.over(*axes), "update")
    before = tuple(Affine(((a, 1),), dim(-1) if a == 1 else dim(0)) for a in axes)
    nothing = k.body.number(0.0, F32)
    previous = k.body.append(Load(out, before, Mask(((axes.index(1), 1),), nothing)), (), F32)
    total = k.body.apply("add", previous, x)
    return k.loops(1, Stage((1,), k.take_body(), (), (Store(out, axis_index(*axes), total),)), ordered=True)


def test_prefix_sums_along_rows_and_columns() -> None:
    runner = Runner([scan((0, 1)), scan((1, 0))])
    for rows, length in ((1, 1), (3, 20), (40, 7), (33, 0), (500, 300)):
        for number in (0, 1):
            shape = (rows, length) if number == 0 else (length, rows)
            x = np.round(sample(F32, rows * length)).reshape(shape)  # sums that are exact in any order
            expected = np.cumsum(x, axis=1 - number, dtype=np.float32)
            for threads in (1, 2):
                out = np.full(shape, np.nan, np.float32)
                assert runner.run(number, [x, out], [rows, length], threads=threads) == 0
                assert np.array_equal(out, expected)


def scatter(ids_type: DType, width: bool) -> LoopKernel:
    """out[ids[i], j] += x[i, j], with j parallel; or out[ids[i]] += x[i]."""
    k = KernelMaker(2 if width else 1)
    last = 1 if width else 0
    ids = k.load(ids_type, last)
    x = k.load(F32, *((1, 0) if width else (0,)))
    rows = dim(Symbol(f"d{last + 1}"))
    shape = (rows, k.sizes[0]) if width else (rows,)
    k.operands.append(Operand(F32, shape, "update"))
    index = (Computed(ids, 1), Affine(((0, 1),))) if width else (Computed(ids, 1),)
    store = Store(len(k.operands) - 1, index, x, "add")
    return k.loops(last, Stage((last,), k.take_body(), (), (store,)), ordered=True)


def test_scatters_add_in_order_and_check_their_ids() -> None:
    runner = Runner([scatter(I32, True), scatter(I64, False)])
    for count, width in ((0, 5), (1, 1), (50, 16), (300, 70), (3000, 257)):
        ids = np.random.default_rng(count).integers(-9, 9, count).astype(np.int32)
        x = sample(F32, count * width).reshape(count, width)
        expected = np.zeros((9, width), np.float32)
        np.add.at(expected, ids, x)
        for threads in (1, 2):
            out = np.zeros((9, width), np.float32)
            assert runner.run(0, [ids, x, out], [width, count, 9], threads=threads) == 0
            assert np.array_equal(out, expected)
        flat = np.zeros(9, np.float32)
        assert runner.run(1, [ids.astype(np.int64), x[:, 0].copy(), flat], [count, 9]) == 0
        single = np.zeros(9, np.float32)
        np.add.at(single, ids, x[:, 0])
        assert np.array_equal(flat, single)
    bad = np.array([1, 2, -10, 3], np.int64)
    assert runner.run(1, [bad, np.ones(4, np.float32), np.zeros(9, np.float32)], [4, 9]) != 0
    assert runner.drivers[1].last_fault()[0] == 1
    assert runner.drivers[1].last_fault()[1][1] == 9
