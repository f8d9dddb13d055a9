"""Scans of rows as vector code: all prefixes of a segment at once, a carry from each segment to the next.

Assumes a stage whose vectors are segments along the scanned axis, or hold rows that are shorter. Guarantees the order
of `dfc.kernels.orders.scan`.
"""

from dfc.kernels.body import Number
from dfc.kernels.orders.scan import DISTANCES, Scan
from dfc_target_cpu.elementwise.accesses import EmissionSite, Point
from dfc_target_cpu.elementwise.body import BodyCode
from dfc_target_cpu.elementwise.loop_schedule import StagePlan
from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.elementwise.types import number_literal
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64, lane_count, poison, vector_constant


class RowScan:
    """The scan of a row, at each outer point."""

    def __init__(self, site: EmissionSite, plan: StagePlan, scan: Scan, body: BodyCode, level: int) -> None:
        """`level`: that of the body inside of the row."""
        self.site, self.f, self.plan, self.scan, self.body, self.level = site, site.f, plan, scan, body, level
        start = plan.order.stage.body[scan.start]
        assert isinstance(start.operation, Number)
        self.start = number_literal(start.dtype, start.operation.bits)
        self.dtype = plan.order.stage.body[scan.value].dtype

    def run(self, point: Point, length: Value, masks: list[Value]) -> None:
        """All of the row at `point`."""
        f, lanes = self.f, self.plan.lanes
        carry = f.alloca(self.start.type)
        f.store(self.start, carry)

        def segment(index: Value, mask: Value | None, _: Value) -> None:
            inside = point.inner(self.scan.axis, index, mask)
            inside.values[self.scan.before] = inside.values[self.scan.value] = poison(self.start.type)
            self.body.emit(self.level, inside)
            prefix = self._prefixes(self.body.stored(self.scan.element, inside))
            result = self._combined(f.splat(f.load(self.start.type, carry), lanes), prefix)
            f.store(f.extract(result, lanes - 1), carry)
            self.body.store(inside, self.plan.order.access.stores[0], result, "")

        vector_loop(f, i64(0), length, lanes, 1, segment, masks=masks)

    def _prefixes(self, value: Value) -> Value:
        """Of one segment by itself."""
        lanes = lane_count(value.type)
        for distance in (distance for distance in DISTANCES if distance < lanes):
            earlier = self.f.shuffle(value, poison(value.type), [(lane - distance) % lanes for lane in range(lanes)])
            has_earlier = vector_constant("i1", [lane >= distance for lane in range(lanes)])
            value = self.f.select(has_earlier, self._combined(earlier, value), value)
        return value

    def _combined(self, earlier: Value, later: Value) -> Value:
        values = [later, earlier] if self.scan.is_element_first else [earlier, later]
        return self.site.functions.apply(self.f, self.scan.function, values, [self.dtype, self.dtype], self.dtype)
