"""The body of a stage as device code: each instruction at the loop level where its inputs are first known.

Used for loop kernels and for the epilogues of products. A caller makes a `Point` for each place, calls `emit` for
every level from the outside in, then `stored`, `store` and so on at the innermost. Guarantees that what does not change
in an inner loop is not computed there, and that a value which is the same in all lanes is computed once.

For an epilogue: `BodyWriter(lines, sizes, operands, epilogue, stage_access(operands, axes, epilogue, stores),
levels={axis: 1 for every axis})`, then at each finished place `emit(0, point); emit(1, point)` where the point has the
indices of all axes and `accumulated` (a value for each lane), then `write_stores(point, stores)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.access import NONE, Access, IndexKey, Lookup, StageAccess, dependencies
from dfc.kernels.body import Accumulated, Apply, AxisIndex, Instruction, Load, Number, Philox, Reduced, Size
from dfc.kernels.form import Operand, Store
from dfc_target_cuda.kernels.write_functions import applied
from dfc_target_cuda.kernels.write_memory import MemoryWriter
from dfc_target_cuda.kernels.write_points import Point, at
from dfc_target_cuda.kernels.write_text import Lines, Sizes
from dfc_target_cuda.kernels.write_types import DeviceCodeError, number

Item = int | Lookup
_Write = Callable[[Instruction, Sequence[str]], str]


class BodyWriter(MemoryWriter):
    """One stage's body. `levels` says inside which loop each axis becomes known (0: before all of them)."""

    def __init__(
        self,
        lines: Lines,
        sizes: Sizes,
        operands: Sequence[Operand],
        body: Sequence[Instruction],
        access: StageAccess,
        *,
        levels: Mapping[int, int],
        results: int = 1,
        written: frozenset[int] = frozenset(),
        written_level: int = 1,
    ) -> None:
        """Results of earlier stages and of products are known at level `results`; loads of `written` operands, which
        the kernel itself writes, are not made before `written_level`."""
        super().__init__(lines, sizes, operands)
        self.body = body
        self.access = access
        self._levels = levels
        self._results = results
        self._written = written
        self._written_level = written_level
        depth = max([results, written_level, *levels.values()])
        self._level: list[int] = []
        self._items: list[list[Item]] = [[] for _ in range(depth + 1)]
        self._placed: set[IndexKey] = set()
        self._varying: dict[frozenset[int], list[bool]] = {}
        for position, one in enumerate(body):
            self._place(position, one)
        for store in access.stores:
            self._place_lookups(store)

    def _place(self, position: int, one: Instruction) -> None:
        load = self.access.loads.get(position)
        level = max((self._level[i] for i in dependencies(one, load)), default=0)
        if load is not None:
            own = self._written_level if load.operand in self._written else 0
            level = max([level, own, *(self._levels.get(axis, 0) for axis in load.axes())])
            self._place_lookups(load)
        if isinstance(one.operation, AxisIndex):
            level = self._levels.get(one.operation.axis, 0)
        if isinstance(one.operation, Reduced | Accumulated):
            level = self._results
        self._level.append(level)
        self._items[level].append(position)

    def _place_lookups(self, access: Access) -> None:
        for lookup in access.lookups:
            if lookup.instruction != NONE and lookup.key not in self._placed:
                self._placed.add(lookup.key)
                self._items[self._level[lookup.instruction]].append(lookup)

    # --- analysis

    def varies(self, point: Point) -> list[bool]:
        """Which instructions differ between the lanes of a point."""
        if len(point.lanes) == 1:
            return [False] * len(self.body)
        key = point.axes
        if key not in self._varying:
            self._varying[key] = self._find_varying(key)
        return self._varying[key]

    def _find_varying(self, axes: frozenset[int]) -> list[bool]:
        found: list[bool] = []
        for position, one in enumerate(self.body):
            load = self.access.loads.get(position)
            direct = load is not None and not axes.isdisjoint(load.axes())
            direct = direct or (isinstance(one.operation, AxisIndex) and one.operation.axis in axes)
            direct = direct or isinstance(one.operation, Accumulated)
            found.append(direct or any(found[i] for i in dependencies(one, load)))
        return found

    # --- emission

    def emit(self, level: int, point: Point) -> None:
        """Everything that becomes known at this level, but for values that the point has already."""
        if level >= len(self._items):
            return
        varies = self.varies(point)
        for item in self._items[level]:
            if isinstance(item, Lookup):
                dtype = self.body[item.instruction].dtype
                self.check_index(point, item, dtype, varies[item.instruction])
            elif item not in point.values:
                point.values[item] = self._instruction(item, self.body[item], point, varies[item])

    def _instruction(self, position: int, one: Instruction, point: Point, varies: bool) -> list[str]:
        operation = one.operation
        match operation:
            case Load():
                return self.load(point, self.access.loads[position], varies)
            case Number():
                return [number(one.dtype, operation.bits)]
            case Size():
                return [f"i64({self.sizes.text(operation.size)})"]
            case AxisIndex():
                return [_axis_value(point, operation.axis, n) for n in range(len(point.lanes) if varies else 1)]
            case Reduced():
                return [point.reduced[operation.stage, operation.reduction]]
            case Accumulated():
                if not point.accumulated:
                    raise DeviceCodeError("an accumulated sum outside the epilogue of a product")
                return point.accumulated
            case Philox():
                return self._each(one, point, varies, self._random)
            case Apply():
                if operation.fault >= 0:
                    self.check_second(operation.function, point, point.values[one.arguments[1]], operation.fault)
                return self._each(one, point, varies, self._apply)

    def _each(self, one: Instruction, point: Point, varies: bool, write: _Write) -> list[str]:
        """The expression of each lane, assigned to a name unless it is one."""
        found: list[str] = []
        for lane in range(len(point.lanes) if varies else 1):
            arguments = [at(point.values[i], lane) for i in one.arguments]
            value = write(one, arguments)
            found.append(value if value in arguments else self.lines.let(value))
        return found

    def _random(self, one: Instruction, arguments: Sequence[str]) -> str:
        assert isinstance(one.operation, Philox)
        element, *keys = arguments
        told = ", ".join([f"i64({element})", *(f"u64({key})" for key in keys)])
        return f"philox_{one.operation.distribution}_{one.dtype.name}({told})"

    def _apply(self, one: Instruction, arguments: Sequence[str]) -> str:
        assert isinstance(one.operation, Apply)
        types = [self.body[i].dtype for i in one.arguments]
        return applied(one.operation.function, arguments, types, one.dtype)

    # --- results

    def stored(self, position: int, point: Point) -> list[str]:
        """The values of an instruction in all lanes."""
        values = point.values[position]
        return values if len(values) == len(point.lanes) else values * len(point.lanes)

    def write_stores(self, point: Point, stores: Sequence[Store], skipped: frozenset[int] = frozenset()) -> None:
        """The stores of the stage in order, without those of numbers in `skipped`."""
        for place, (store, access) in enumerate(zip(stores, self.access.stores, strict=True)):
            values = self.stored(store.value, point)
            if place in skipped:
                self.keep(point, access, values)
            else:
                self.store(point, access, values, store.combine)

    def sum(self, old: str, value: str, dtype: DType) -> str:
        return applied("add", [old, value], [dtype, dtype], dtype)


def _axis_value(point: Point, axis: int, lane: int) -> str:
    name, delta = point.index(axis, lane)
    if not name:
        return f"i64({delta})"
    return f"i64({name} + {delta})" if delta else f"i64({name})"
