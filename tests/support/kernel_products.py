"""The sums of contractions as their index maps say: every factor's elements at all points at once, then one step of the
depth after the other, with a product and a sum that are rounded one after the other.

Elements that are the same for all points of an axis have the length 1 there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.kernels.form import ContractKernel, MatrixOperand
from tests.support.kernel_scalars import computing


def sums(
    kernel: ContractKernel, operands: Sequence[Any], sizes: Mapping[Symbol, int], extents: Sequence[int]
) -> np.ndarray:
    """One sum for each point of all axes but the last, in the type sums are computed in."""
    *rest, depth = extents
    total = np.zeros(rest, computing(kernel.accumulator))
    a, b = (
        np.broadcast_to(elements(factor, operands[factor.operand], sizes, extents), extents)
        for factor in (kernel.a, kernel.b)
    )
    for k in range(depth):
        total = total + a[..., k].astype(total.dtype) * b[..., k].astype(total.dtype)
    return total


def elements(factor: MatrixOperand, array: Any, sizes: Mapping[Symbol, int], extents: Sequence[int]) -> np.ndarray:
    """The elements of a factor over all axes of its kernel, through its index map; 0 outside of what lies inside."""
    grid = list(np.ogrid[tuple(slice(extent) for extent in extents)])
    for split in factor.splits:
        parts = [extent.evaluate(sizes) for extent in split.extents]
        assert math.prod(parts) == extents[split.axis], (parts, extents)
        if math.prod(parts):
            grid += np.unravel_index(grid[split.axis], parts)
        else:
            grid += [grid[split.axis]] * len(parts)
    at = [
        sum((coefficient * grid[axis] for axis, coefficient in i.terms), np.zeros((1,) * len(extents), np.int64))
        + i.offset.evaluate(sizes)
        for i in factor.index
    ]
    valid: Any = np.True_
    for axis, step in factor.inside:
        fits = (at[axis] % step == 0) & (at[axis] >= 0) & (at[axis] // step < array.shape[axis])
        valid = valid & fits
        at[axis] = np.where(fits, at[axis] // step, 0)
    within: Any = np.True_
    for i, length in zip(at, array.shape, strict=True):
        within = within & (i >= 0) & (i < length)
    assert np.all(within | ~valid), "a factor is read outside of its operand"
    shape = np.broadcast_shapes(*(i.shape for i in at), np.shape(valid), (1,) * len(extents))
    if 0 in array.shape or 0 in shape:
        return np.zeros(shape, array.dtype)
    at = [np.where(valid, i, 0) for i in at]
    return np.where(valid, array[tuple(np.broadcast_arrays(*at))] if at else array[()], array.dtype.type(0))
