"""Index maps of factors: as accesses, and as instructions of a loop kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32
from dfc.kernels.body import Accumulated, Affine, BodyBuilder
from dfc.kernels.contractions import as_loops
from dfc.kernels.form import Axis, ContractKernel, MatrixOperand, Operand, Split, Store
from dfc.kernels.operand_maps import operand_map
from tests.support.kernel_interpreter import contract, loops
from tests.support.kernel_points import PointCall

ROWS = dim(Symbol("d0"))


def windows(step: int = 1, interior: int = 1) -> ContractKernel:
    """c[i, j] = sum over (r, ch) of x[i * step + r - 1, ch] * w[r, ch, j], with 4 channels and windows of 3."""
    body = BodyBuilder()
    total = body.append(Accumulated(), (), F32)
    index = (Affine(((0, step), (3, 1)), dim(-1)), Affine(((4, 1),)))
    a = MatrixOperand(0, index, (Split(2, (dim(3), dim(4))),), ((0, interior),))
    b = MatrixOperand(1, (Affine(((2, 1),)), Affine(((1, 1),))))
    operands = (
        Operand(F32, (ROWS, dim(4)), "read"),
        Operand(F32, (dim(12), dim(2)), "read"),
        Operand(F32, (dim(5), dim(2)), "write"),
    )
    axes = (Axis("i0", dim(5)), Axis("i1", dim(2)), Axis("i2", dim(12)))
    store = Store(2, (Affine(((0, 1),)), Affine(((1, 1),))), total)
    return ContractKernel(operands, axes, a, b, F32, tuple(body.instructions), (store,))


def test_sub_axes_are_numbered_behind_the_axes() -> None:
    found = operand_map(windows(), windows().a)
    assert [(one.axis, one.extent.constant, one.stride.constant) for one in found.sub_axes] == [(2, 3, 4), (2, 4, 1)]
    assert [c.constant for c in found.access.coefficients] == [4, 0, 0, 4, 1]
    assert found.depends_on(2) and not found.depends_on(1)


@pytest.mark.parametrize(("rows", "step", "interior"), [(5, 1, 1), (9, 2, 1), (3, 1, 2), (2, 1, 3), (0, 1, 1)])
def test_loops_make_the_same_sums(rows: int, step: int, interior: int) -> None:
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((rows, 4), (12, 2)))
    kernel = windows(step, interior)
    sizes = {Symbol("d0"): rows}
    found: list[Any] = []
    for one, execute in ((kernel, contract), (as_loops(kernel), loops)):
        operands = [x, w, np.full((5, 2), np.nan, np.float32)]
        extents = [axis.extent.evaluate(sizes) for axis in one.axes]
        execute(one, PointCall(operands, sizes, extents, [operand.access for operand in one.operands]))  # type: ignore[operator]
        found.append(operands[2])
    expected = np.zeros((5, 2))
    for i, r in np.ndindex(5, 3):
        at = i * step + r - 1
        if at % interior == 0 and 0 <= at // interior < rows:
            expected[i] += x[at // interior] @ w[4 * r : 4 * r + 4]
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)
