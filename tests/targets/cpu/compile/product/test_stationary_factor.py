"""Products that are added where they are written, of sizes for which the second factor is packed once, and of others:
the bits of sums that are made in the result, and on any number of threads."""

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.body import Load
from dfc.kernels.form import ContractKernel, Store
from tests.support.programs import Runner, axis_index
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cpu.compile.product.test_contraction import Maker, plain

SIZES = (
    (300, 1100, 511),
    (257, 384, 1),
    (131, 2000, 100),
    (700, 1024, 512),
    (300, 400, 513),
    (127, 400, 20),
    (256, 2048, 64),  # with 48 columns to a panel, the halves of a row are no whole panels
)


def added(dtype: DType, a_turned: bool, b_turned: bool) -> ContractKernel:
    x = Maker()
    a = x.factor(dtype, *((x.k, x.m) if a_turned else (x.m, x.k)))
    b = x.factor(dtype, *((x.n, x.k) if b_turned else (x.k, x.n)))
    state = x.operand(dtype, (x.m, x.n), "update")
    old = x.body.append(Load(state, axis_index(x.m, x.n)), (), dtype)
    return x.finish(a, b, dtype, Store(state, axis_index(x.m, x.n), x.body.apply("add", old, x.accumulated(dtype))))


@pytest.mark.parametrize("dtype", [F32, F64])
def test_sums_have_the_bits_of_those_that_are_made_in_the_result(dtype: DType) -> None:
    layouts = [(a, b) for a in (False, True) for b in (False, True)]
    pairs = [(added(dtype, *layout), plain(dtype, dtype, *layout)) for layout in layouts]
    runner = Runner([kernel for pair in pairs for kernel in pair])
    for m, n, k in SIZES if dtype is F32 else SIZES[:1]:
        a, b = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
        old = sample(dtype, m * n, 3).reshape(m, n)
        for number, (a_turned, b_turned) in enumerate(layouts):
            factors = [np.ascontiguousarray(x.T) if t else x for x, t in ((a, a_turned), (b, b_turned))]
            sums = np.zeros_like(old)
            assert runner.run(2 * number + 1, [*factors, sums], [m, n, k]) == 0
            for threads in (1, 2):
                out = old.copy()
                assert runner.run(2 * number, [*factors, out], [m, n, k], threads=threads) == 0
                np.testing.assert_array_equal(out, old + sums)


def test_the_factor_is_packed_once_where_sums_need_a_tile() -> None:
    assert "call void @gemm_turned_float(" in Runner([added(F32, False, False)]).listing
    assert "call void @gemm_turned_float(" not in Runner([plain(F32, F32, False, False)]).listing
