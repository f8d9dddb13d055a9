"""The body of a stage as vector code, each instruction at its level of the loops around it.

Assumes that the loops call `emit` for every level from the outside in. Guarantees that nothing is computed again in an
inner loop that does not change there, and that a value which is the same in all lanes is computed once, as a scalar.
"""

from collections.abc import Sequence

from dfc.kernels.access import NONE, Access, Lookup, StageAccess
from dfc.kernels.body import Accumulated, Apply, AxisIndex, Instruction, Load, Number, Philox, Reduced, Size
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.levels import items_by_level, ramps, varying
from dfc_target_cpu.elementwise.accesses import EmissionSite, MemoryCode, Point, PrefetchDistance
from dfc_target_cpu.elementwise.types import is_signed, number_literal
from dfc_target_cpu.entries.faults import report_if
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import constant, i64, lane_count, vector_type, zero


class BodyCode(MemoryCode):
    """One stage's body in one loop order. Level 0 is before all loops, level n inside the n-th."""

    def __init__(
        self,
        site: EmissionSite,
        body: Sequence[Instruction],
        access: StageAccess,
        order: Sequence[int],
        vector: int,
        *,
        outer_levels: int,
        outer_varies: bool,
        written: frozenset[int],
        in_order: bool = False,
        prefetch_distance: PrefetchDistance = lambda _: None,
    ) -> None:
        """`order`: all axes around the body, outer first; the first `outer_levels` are common to all stages, and
        results of earlier stages and loads of what the kernel itself writes are not known before them. With `in_order`
        such loads are made at each point."""
        super().__init__(site, prefetch_distance)
        self.body = body
        self.access = access
        self.levels = {axis: level + 1 for level, axis in enumerate(order)}
        self.varies = varying(body, access, (vector,), reduced=outer_varies, accumulated=outer_varies)
        self._ramps = ramps(body, self.varies, vector)
        self._outer_levels = outer_levels
        self._written = written
        self._in_order = in_order
        self._depth = len(order)
        self._items = items_by_level(
            body, access, self.levels, depth=self._depth, results=outer_levels, loads=self._load_level
        )

    def _load_level(self, load: Access) -> int:
        if load.operand not in self._written:
            return 0
        return self._depth if self._in_order else self._outer_levels

    # --- emission

    def emit(self, level: int, point: Point) -> None:
        """Everything that becomes known at this level, and is not yet."""
        for item in self._items[level]:
            if isinstance(item, Lookup):
                point.lookups[item.key] = self._checked(item, point)
            elif item not in point.values:
                point.values[item] = self._instruction(item, self.body[item], point)

    def argument(self, number: int, point: Point, varies: bool) -> Value:
        value = point.values[number]
        return self.all_lanes(point, value) if varies else value

    def _instruction(self, number: int, one: Instruction, point: Point) -> Value:
        operation, varies = one.operation, self.varies[number] and point.lanes > 1
        if isinstance(operation, Load):
            return self.load(point, self.access.loads[number], varies)
        if isinstance(operation, Number):
            return number_literal(one.dtype, operation.bits)
        if isinstance(operation, Size):
            return self.dims.value(operation.size)
        if isinstance(operation, AxisIndex):
            index = point.index(operation.axis)
            return self.ramp(index, i64(1), point.lanes) if varies else index
        if isinstance(operation, Reduced):
            return point.reduced[operation.stage, operation.reduction]
        if isinstance(operation, Accumulated):
            if point.accumulated is None:
                raise CodeGenerationError("an accumulated sum outside the epilogue of a contraction")
            return point.accumulated
        arguments = [self.argument(i, point, varies) for i in one.arguments]
        if isinstance(operation, Philox):
            return self.site.functions.random(self.f, operation.distribution, arguments, one.dtype)
        return self._apply(operation, one, arguments, point, varies)

    def _apply(self, operation: Apply, one: Instruction, arguments: list[Value], point: Point, varies: bool) -> Value:
        types = [self.body[i].dtype for i in one.arguments]
        if operation.fault >= 0:
            bad = "slt" if operation.function == "pow" else "eq"
            self._fail_if(self.f.icmp(bad, arguments[1], zero(arguments[1].type)), point, operation.fault, [])
        return self.site.functions.apply(self.f, operation.function, arguments, types, one.dtype)

    def _checked(self, lookup: Lookup, point: Point) -> Value:
        """A computed index as a whole number in range; negative ones count from the end. Where lanes follow each other,
        the first one shows whether all are inside."""
        f = self.f
        dtype = self.body[lookup.instruction].dtype
        raw = point.values[lookup.instruction]
        lanes = lane_count(raw.type)
        kind = vector_type(lanes, "i64")
        index = raw if raw.type == kind else f.resize(raw, kind, signed=is_signed(dtype))
        if lookup.fault == NONE:
            return index
        extent = self.dims.value(lookup.extent)
        if lanes == 1 or lookup.instruction not in self._ramps:
            return self._in_range(lookup, point, index, extent)
        first = f.extract(index, 0)
        inside = f.bit_and(f.icmp("sge", first, i64(0)), f.icmp("slt", first, f.sub(extent, i64(lanes - 1))))
        point.neighbours[lookup.key] = inside
        return f.choose(inside, lambda: index, lambda: self._in_range(lookup, point, index, extent), "ramp")

    def _in_range(self, lookup: Lookup, point: Point, index: Value, extent: Value) -> Value:
        f = self.f
        limit = f.splat(extent, lane_count(index.type))
        wrapped = index
        if is_signed(self.body[lookup.instruction].dtype):
            negative = f.icmp("slt", index, constant(index.type, 0))
            wrapped = f.select(negative, f.binary("add", index, limit), index)
        self._fail_if(f.icmp("uge", wrapped, limit), point, lookup.fault, [index, limit])
        return wrapped

    def _fail_if(self, bad: Value, point: Point, site: int, values: list[Value]) -> None:
        if point.mask is not None and lane_count(bad.type) > 1:
            bad = self.f.bit_and(bad, point.mask)
        fine = report_if(self.site.module, self.f, self.site.context, bad, site, values)
        self.f.branch(self.site.failed)
        self.f.begin(fine)

    def stored(self, number: int, point: Point) -> Value:
        """A value to store, in all lanes."""
        return self.argument(number, point, True)
