"""Sums of products in the order of `dfc.kernels.orders.product`, run by NumPy: independent of every target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc.ir.dims import dim
from dfc.ir.dtypes import DType
from dfc.kernels.functions.interpret_function import primitive
from dfc.kernels.orders.product import part_depth


def product_in_order(a: NDArray[Any], b: NDArray[Any], dtype: DType, *, parts: int = 1, step: int = 1) -> NDArray[Any]:
    """`a @ b` of matrices, in so many parts of whole steps."""
    depth = a.shape[1]
    each = part_depth(dim(depth), dim(parts), step).constant
    assert each is not None
    sums = [_chain(a[:, first : first + each], b[first : first + each], dtype) for first in range(0, depth, each or 1)]
    total = np.zeros((a.shape[0], b.shape[1]), dtype.numpy)
    for one in sums if parts > 1 else []:
        total = total + one
    return total if parts > 1 or not sums else sums[0]


def _chain(a: NDArray[Any], b: NDArray[Any], dtype: DType) -> NDArray[Any]:
    total = np.zeros((a.shape[0], b.shape[1]), dtype.numpy)
    for k in range(a.shape[1]):
        left, right = np.broadcast_arrays(a[:, k, None], b[None, k])
        total = primitive("fma", [left, right, total], dtype, dtype)
    return total
