"""At which loop around a body each of its instructions is first known, and which of them differ between neighbours.

Pure analysis, for every target: no code is made here. Assumes a body in SSA order with its accesses. Guarantees that an
instruction stands behind what it needs, and as far out as that allows, so that nothing is computed again in a loop that
does not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dfc.ir.dtypes import I64
from dfc.kernels.access import NONE, Access, IndexKey, Lookup, StageAccess, dependencies
from dfc.kernels.body import Accumulated, Apply, AxisIndex, Instruction, Reduced

Item = int | Lookup
"""An instruction by its position, or an index that is to be checked."""


def items_by_level(
    body: Sequence[Instruction],
    access: StageAccess,
    levels: Mapping[int, int],
    *,
    depth: int,
    results: int,
    loads: Callable[[Access], int],
) -> list[list[Item]]:
    """What becomes known at each level 0 .. `depth`: 0 is before all loops, and `levels` says inside which loop the
    index of an axis is known (0 without a loop of its own). Results of earlier stages are known at level `results`; a
    load is not made before `loads` says."""
    known: list[int] = []
    items: list[list[Item]] = [[] for _ in range(depth + 1)]
    emitted: set[IndexKey] = set()

    def emit_lookups(one: Access) -> None:
        for lookup in one.lookups:
            if lookup.instruction != NONE and lookup.key not in emitted:
                emitted.add(lookup.key)
                items[known[lookup.instruction]].append(lookup)

    for position, one in enumerate(body):
        load = access.loads.get(position)
        level = max((known[i] for i in dependencies(one, load)), default=0)
        if load is not None:
            level = max([level, loads(load), *(levels.get(axis, 0) for axis in load.axes())])
            emit_lookups(load)
        if isinstance(one.operation, AxisIndex):
            level = levels.get(one.operation.axis, 0)
        if isinstance(one.operation, Reduced | Accumulated):
            level = results
        known.append(level)
        items[level].append(position)
    for store in access.stores:
        emit_lookups(store)
    return items


def varying(
    body: Sequence[Instruction], access: StageAccess, axes: Collection[int], *, reduced: bool, accumulated: bool
) -> list[bool]:
    """Which instructions differ between neighbours along these axes; `reduced` and `accumulated`: whether results of
    earlier stages and of products do."""
    flags: list[bool] = []
    for position, one in enumerate(body):
        load, operation = access.loads.get(position), one.operation
        direct = load is not None and not load.axes().isdisjoint(axes)
        direct = direct or (isinstance(operation, AxisIndex) and operation.axis in axes)
        direct = direct or (isinstance(operation, Reduced) and reduced)
        direct = direct or (isinstance(operation, Accumulated) and accumulated)
        flags.append(direct or any(flags[i] for i in dependencies(one, load)))
    return flags


def ramps(body: Sequence[Instruction], varies: Sequence[bool], axis: int) -> frozenset[int]:
    """The instructions that grow by 1 from each neighbour along `axis` to the next; `varies` as `varying` says it."""
    steps: list[int | None] = []
    for one, differs in zip(body, varies, strict=True):
        operation, step = one.operation, None
        arguments = [steps[i] for i in one.arguments]
        if not differs:
            step = 0
        elif isinstance(operation, AxisIndex):
            step = 1 if operation.axis == axis else None
        elif isinstance(operation, Apply) and operation.function in ("add", "sub") and one.dtype == I64:
            left, right = arguments
            if left is not None and right is not None:
                step = left + right if operation.function == "add" else left - right
        steps.append(step)
    return frozenset(position for position, step in enumerate(steps) if step == 1)
