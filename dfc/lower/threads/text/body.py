"""The body of a stage as kernel text, each instruction at its level of the loops around it.

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
from dfc.kernels.access import Access, Lookup, StageAccess
from dfc.kernels.body import Accumulated, Apply, AxisIndex, Instruction, Load, Number, Philox, Reduced, Size
from dfc.kernels.form import Operand, Store
from dfc.kernels.levels import items_by_level, varying
from dfc.lower.threads.text.functions import applied
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.memory import MemoryWriter
from dfc.lower.threads.text.points import Point, at
from dfc.lower.threads.text.types import DeviceCodeError, number

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
        depth = max([results, written_level, *levels.values()])

        def load_level(load: Access) -> int:
            return written_level if load.operand in written else 0

        self._items = items_by_level(body, access, levels, depth=depth, results=results, loads=load_level)
        self._varying: dict[frozenset[int], list[bool]] = {}

    # --- analysis

    def varies(self, point: Point) -> list[bool]:
        """Which instructions differ between the lanes of a point."""
        if len(point.lanes) == 1:
            return [False] * len(self.body)
        key = point.axes
        if key not in self._varying:
            self._varying[key] = varying(self.body, self.access, key, reduced=False, accumulated=True)
        return self._varying[key]

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
                    second = one.arguments[1]
                    self.check_second(
                        operation.function, point, point.values[second], self.body[second].dtype, operation.fault
                    )
                return self._each(one, point, varies, self._apply)

    def _each(self, one: Instruction, point: Point, varies: bool, write: _Write) -> list[str]:
        """The expression of each lane, assigned to a name unless it is one."""
        operands: list[str] = []
        for lane in range(len(point.lanes) if varies else 1):
            arguments = [at(point.values[i], lane) for i in one.arguments]
            value = write(one, arguments)
            operands.append(value if value in arguments else self.lines.let(value))
        return operands

    def _random(self, one: Instruction, arguments: Sequence[str]) -> str:
        assert isinstance(one.operation, Philox)
        element, *keys = arguments
        drawn = ", ".join([f"i64({element})", *(f"u64({key})" for key in keys)])
        return f"philox_{one.operation.distribution}_{one.dtype.name}({drawn})"

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
        for position, (store, access) in enumerate(zip(stores, self.access.stores, strict=True)):
            values = self.stored(store.value, point)
            if position in skipped:
                self.keep(point, access, values)
            else:
                self.store(point, access, values, store.combine)

    def sum(self, old: str, value: str, dtype: DType) -> str:
        return applied("add", [old, value], [dtype, dtype], dtype)


def _axis_value(point: Point, axis: int, lane: int) -> str:
    name, delta = point.index(axis, lane)
    if not name:
        return f"i64({delta})"
    return f"{name} + {delta}" if delta else name
