"""The results of a call on many tasks: whole from one of them, or put together of the pieces of several.

Assumes that every task which makes results has answered. Guarantees each piece at its place, whichever task came first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.reduce.pieces import put
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.distributed.transport.wire import is_array

Shape = tuple[int, ...]


def assembled(
    plan: EntryPlan,
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    values_of: Callable[[int, TaskPart], Sequence[object]],
) -> list[object]:
    """The results of an entry, of these shapes and sizes; `values_of` gives what the task of a rank has of them."""
    whole: list[object] = [None] * len(plan.entry.results)
    steps: dict[int, list[Array]] = {}
    for rank, part in plan.parts.items():
        if not part.results:
            continue  # which may be a silent part, of which nothing was heard
        for number, value in zip(part.results, values_of(rank, part), strict=True):
            split = plan.split.results[number]
            if split.split_axis < 0:
                if plan.split.update is None:
                    whole[number] = value
                elif is_array(value) and len(value):  # a task may have come to no step in time
                    steps.setdefault(number, []).append(value)
                continue
            assert is_array(value)
            if split.rule:
                whole[number] = plan.with_rows(part, number, whole[number], value)
                continue
            whole[number] = _with_piece(plan, part, number, whole[number], value, shapes[number], sizes)
    for number, stacks in steps.items():
        whole[number] = _of_steps(plan, np.concatenate(stacks))
    return whole


def _of_steps(plan: EntryPlan, stack: Array) -> object:
    """What several steps give for a result that has no axis of the batch: their mean or sum, in their order."""
    assert plan.split.update is not None
    combine = np.mean if plan.split.update.combine == "mean" else np.sum
    return combine(stack.astype(np.float64), axis=0).astype(stack.dtype)[()]


def _with_piece(
    plan: EntryPlan,
    part: TaskPart,
    number: int,
    whole: object,
    value: Array,
    shape: Shape,
    sizes: Mapping[str, int],
) -> Array:
    """A result with the piece of one task in it; it is made for the first piece."""
    split = plan.split.results[number]
    if not is_array(whole):
        whole = np.empty(shape, numpy_dtype(plan.entry.results[number].dtype))
    put(whole, value, split.split_axis, split.runs.evaluate(sizes), plan.split.blocks, part.blocks)
    return whole
