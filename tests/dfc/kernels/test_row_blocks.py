"""Which kernels go along rows, products the other way round, and the memory of panels."""

from __future__ import annotations

import numpy as np

from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import F16, F32, F64
from dfc.kernels.body import Accumulated, Affine, BodyBuilder, Load
from dfc.kernels.form import Axis, ContractKernel, MatrixOperand, Operand, Store
from dfc.kernels.row_blocks import PANEL_BYTES, along_rows, overflow_bytes, padded, row_bytes, transposed
from tests.support.kernel_interpreter import run_kernel

M, N, K = dim(5), dim(3), dim(4)


def at(*axes: int) -> tuple[Affine, ...]:
    return tuple(Affine(((axis, 1),)) for axis in axes)


def product(*, by_columns: bool = False) -> ContractKernel:
    """c[m, n] = 2 a[m, k] b[k, n] + d[n]; with `by_columns` it is stored as c[n, m]."""
    body = BodyBuilder()
    total = body.append(Accumulated(), (), F32)
    shift = body.append(Load(3, at(1)), (), F32)
    value = body.apply("add", body.apply("mul", total, body.number(2.0, F32)), shift)
    shape = (N, M) if by_columns else (M, N)
    kinds = [((M, K), "read"), ((K, N), "read"), (shape, "write"), ((N,), "read")]
    operands = tuple(Operand(F32, each, access) for each, access in kinds)
    axes = Axis("i0", M), Axis("i1", N), Axis("i2", K)
    a, b = MatrixOperand(0, at(0, 2)), MatrixOperand(1, at(2, 1))
    store = Store(2, at(1, 0) if by_columns else at(0, 1), value)
    return ContractKernel(operands, axes, a, b, F32, tuple(body.instructions), (store,))


def test_a_product_goes_along_its_rows_and_along_its_depth() -> None:
    assert along_rows(product(), (M,), [0, 2]) == (product(), 0)
    a_by_depth = transposed_factor()
    assert along_rows(a_by_depth, (K,), [0]) == (a_by_depth, 2)


def transposed_factor() -> ContractKernel:
    """A product whose factors both have the depth in front: each row of a panel is one step of the depth."""
    one = product()
    operands = (Operand(F32, (K, M), "read"), *one.operands[1:])
    return ContractKernel(operands, one.axes, MatrixOperand(0, at(2, 0)), one.b, F32, one.epilogue, one.stores)


def test_a_panel_that_is_the_second_factor_needs_all_rows_unless_the_product_is_turned() -> None:
    assert along_rows(product(), (M,), [1]) is None
    kernel = product(by_columns=True)
    turned = along_rows(kernel, (N,), [2])
    assert turned == (transposed(kernel), 0)


def test_a_product_that_sums_over_rows_goes_straight_to_memory() -> None:
    assert along_rows(transposed_factor(), (K,), [0, 2]) is None


def test_a_transposed_product_has_the_same_results() -> None:
    generator = np.random.default_rng(2)
    for by_columns in (False, True):
        kernel = product(by_columns=by_columns)
        arrays = [generator.standard_normal([d.constant for d in o.shape]).astype(np.float32) for o in kernel.operands]
        first, second = (list(map(np.copy, arrays)) for _ in range(2))
        run_kernel(kernel, first, {})
        run_kernel(transposed(kernel), second, {})
        np.testing.assert_array_equal(first[2], second[2])
        wanted = 2 * (arrays[0].astype(np.float64) @ arrays[1]) + arrays[3]
        np.testing.assert_allclose(first[2], wanted.T if by_columns else wanted, rtol=1e-5, atol=1e-5)


def test_rows_of_a_panel_are_an_odd_number_of_cache_lines() -> None:
    for dtype in (F16, F32, F64):
        for length in (0, 1, 31, 64, 1000, 4096):
            panel = padded(Operand(dtype, (dim(2), dim(7), dim(length)), "update"), 2)
            width = panel.shape[-1].constant or 0
            assert width >= length and width * dtype.size % 64 == 0 and width * dtype.size // 64 % 2 == 1


def test_only_a_row_that_is_too_long_overflows() -> None:
    n = Symbol("N")
    panels = [Operand(F32, (dim(2), dim(n)), "update")]
    most = PANEL_BYTES // 4 - 16
    assert row_bytes(panels, 1).evaluate({n: most}) == PANEL_BYTES
    assert overflow_bytes(panels, 1).evaluate({n: most}) == 0
    assert overflow_bytes(panels, 1).evaluate({n: most + 1}) == PANEL_BYTES + 4
    assert isinstance(overflow_bytes(panels, 1), Dim)
