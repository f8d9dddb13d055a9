"""Feeds cut into the blocks of tasks, and results put together from them.

A task has its blocks along a new axis in front; in the whole, they stand in their order along the axis that is cut, in
each of its runs.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.distributed.reduce.reduction_plan import Node
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import BundleError


def piece(whole: Array, axis: int, runs: int, blocks: int, own: Node) -> Array:
    """The blocks of a task, row-major, of a whole that is; not a copy where they lie in a row already."""
    if not axis and runs == 1 and not whole.shape[0] % blocks:  # the blocks lie one behind the other
        size = whole.shape[0] // blocks
        return whole[own[0] * size : own[1] * size].reshape(own[1] - own[0], size, *whole.shape[1:])
    view = _by_block(whole, axis, runs, blocks)[:, :, own[0] : own[1]]
    before, size = whole.shape[:axis], whole.shape[axis] // blocks
    front = np.moveaxis(view, 2, 0)
    return np.ascontiguousarray(front).reshape((own[1] - own[0], *before, size, *whole.shape[axis + 1 :]))


def put(whole: Array, part: Array, axis: int, runs: int, blocks: int, own: Node) -> None:
    """Writes what a task gave to its place in the whole."""
    view = _by_block(whole, axis, runs, blocks)[:, :, own[0] : own[1]]
    front = np.moveaxis(view, 2, 0)
    np.copyto(front, part.reshape(front.shape))


def _by_block(whole: Array, axis: int, runs: int, blocks: int) -> Array:
    """The whole with axes for what is before, runs, blocks, the run of a block, and what is behind; a view."""
    before = int(np.prod(whole.shape[:axis], dtype=np.int64))
    behind = int(np.prod(whole.shape[axis + 1 :], dtype=np.int64))
    run = whole.shape[axis] // (runs * blocks) if runs else 0
    if runs * blocks * run != whole.shape[axis]:
        raise BundleError("the bundle cuts an axis into pieces that do not fit it", code="E0907")
    return whole.reshape(before, runs, blocks, run, behind)
