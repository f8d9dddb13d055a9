"""Loads and stores of kernel bodies: from an access and a point to vector, scalar or gathered memory instructions.

Assumes that computed indices were checked and that a mask, where there is one, has its first lane set. Guarantees that
lanes that are off, or outside the bounds of a masked access, touch no memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO
from dfc.ir.dtypes import DType
from dfc.kernels.access import NONE, Access, IndexKey, Lookup
from dfc.kernels.body import Affine
from dfc.kernels.form import Operand
from dfc_target_cpu.elementwise.functions import Functions
from dfc_target_cpu.elementwise.types import is_literal, memory_type, splat_literal_value
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import constant, element_type, i64, lane_count, vector_type, zero
from dfc_target_cpu.machine import Machine

MOST_SHUFFLED = 8
"""Lanes that lie up to so many elements apart are read with all that lies between."""


@dataclass(slots=True)
class EmissionSite:
    """Where code is written: the function, its operands' addresses, how to give up after a fault."""

    module: ModuleText
    machine: Machine
    functions: Functions
    f: FunctionText
    dims: DimCode
    context: Value
    operands: Sequence[Operand]
    pointers: Sequence[Value]
    failed: str  # label of the block that leaves the function after a fault


@dataclass(slots=True)
class Point:
    """What is known at a place of a loop nest: indices (first lane), values computed so far, lanes that are on."""

    vector: int = NONE
    lanes: int = 1
    indices: dict[int, Value] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    lookups: dict[IndexKey, Value] = field(default_factory=dict)
    neighbours: dict[IndexKey, Value] = field(default_factory=dict)  # whether the lanes of a lookup follow each other
    splats: dict[Value, Value] = field(default_factory=dict)
    reduced: dict[tuple[int, int], Value] = field(default_factory=dict)
    accumulated: Value | None = None
    mask: Value | None = None

    def inner(self, axis: int = NONE, index: Value | None = None, mask: Value | None = None) -> "Point":
        """A point further in, whose values do not leak back."""
        indices = self.indices if index is None else {**self.indices, axis: index}
        return Point(
            self.vector,
            self.lanes,
            dict(indices),
            dict(self.values),
            dict(self.lookups),
            dict(self.neighbours),
            dict(self.splats),
            self.reduced,
            self.accumulated,
            self.mask if mask is None else mask,
        )

    def index(self, axis: int) -> Value:
        return self.indices.get(axis, i64(0))


PrefetchDistance = Callable[[Access], Value | None]
"""By how many bytes what an access reads is asked for ahead of its loads, if it is."""

STREAM_PREFETCH = i64(1024)
"""Bytes by which a stream of whole vectors is asked for ahead of its loads. Processors see streams coming, but only
inside of a page, and long arithmetic leaves them few loads to see."""


class MemoryCode:
    """Emits the accesses of one stage."""

    def __init__(self, site: EmissionSite, prefetch_distance: PrefetchDistance = lambda _: None) -> None:
        self.site = site
        self.prefetch_distance = prefetch_distance
        self.f = site.f
        self.dims = site.dims

    def all_lanes(self, point: Point, value: Value) -> Value:
        """A value in every lane; one that is a vector already stays."""
        if point.lanes == 1 or lane_count(value.type) > 1:
            return value
        if is_literal(value):
            return splat_literal_value(value, point.lanes)
        if value not in point.splats:
            point.splats[value] = self.f.splat(value, point.lanes)
        return point.splats[value]

    def on(self, point: Point) -> Value:
        """The lanes that are on."""
        return point.mask if point.mask is not None else constant(vector_type(point.lanes, "i1"), True)

    # --- offsets

    def linear(self, point: Point, access: Access) -> Value:
        """The affine part of an offset, at the first lane; outer axes first, so that it is hoisted piece by piece."""
        total = self.dims.value(access.offset)
        for axis, index in point.indices.items():
            if access.coefficients[axis] != ZERO:
                total = self.f.add(total, self.f.mul(index, self.dims.value(access.coefficients[axis])))
        return total

    def affine(self, point: Point, affine: Affine) -> Value:
        """An index, at the first lane."""
        total = self.dims.value(affine.offset)
        for axis, factor in affine.terms:
            total = self.f.add(total, self.f.mul(point.index(axis), i64(factor)))
        return total

    def affine_lanes(self, point: Point, affine: Affine) -> Value:
        """An index in all lanes; a scalar where all lanes agree."""
        first = self.affine(point, affine)
        factor = dict(affine.terms).get(point.vector, 0)
        return first if factor == 0 or point.lanes == 1 else self.ramp(first, i64(factor), point.lanes)

    def ramp(self, first: Value, step: Value, lanes: int) -> Value:
        numbers = self.f.lane_numbers(lanes, first.type)
        if step.text != "1":
            numbers = self.f.binary("mul", numbers, self.f.splat(step, lanes))
        return self.f.binary("add", self.f.splat(first, lanes), numbers)

    def lookup(self, point: Point, lookup: Lookup) -> Value:
        """One non-linear part of an offset: a scalar where all lanes agree."""
        f = self.f
        if lookup.affine is None:
            index = point.lookups[lookup.key]
        else:
            affine = self.affine_lanes(point, lookup.affine)
            index = f.assign(affine.type, f"sdiv {affine}, {constant(affine.type, lookup.interior).text}")
        stride = self.dims.value(lookup.stride)
        lanes = lane_count(index.type)
        if stride.text == "1":
            return index
        return f.binary("mul", index, f.splat(stride, lanes)) if lanes > 1 else f.mul(index, stride)

    def address(self, point: Point, access: Access) -> tuple[Value, Value | None]:
        """The address at the first lane, and the offsets of all lanes from it (None: neighbours, or one for all)."""
        f = self.f
        first = self.linear(point, access)
        offsets: Value | None = None
        for lookup in access.lookups:
            part = self.lookup(point, lookup)
            if lane_count(part.type) == 1:
                first = f.add(first, part)
            else:
                offsets = part if offsets is None else f.binary("add", offsets, part)
        base = f.gep(self.element(access), self.site.pointers[access.operand], first)
        if point.vector == NONE or point.lanes == 1:
            return base, None
        step = access.coefficients[point.vector]
        if offsets is None and step.constant in (0, 1):
            return base, None
        if step != ZERO:
            ramp = self.ramp(i64(0), self.dims.value(step), point.lanes)
            offsets = ramp if offsets is None else f.binary("add", offsets, ramp)
        return base, offsets

    def valid(self, point: Point, access: Access) -> Value:
        """Whether each lane lies inside the bounds of a masked access."""
        f = self.f
        result: Value | None = None
        for bound in access.bounds:
            index = self.affine_lanes(point, bound.affine)
            extent = self._like(index, self.dims.value(bound.extent))
            quotient = index
            ok: Value | None = None
            if bound.interior > 1:
                step = constant(index.type, bound.interior)
                quotient = f.sdiv(index, step)
                ok = f.icmp("eq", f.binary("mul", quotient, step), index)
            inside = f.icmp("ult", quotient, extent)
            ok = inside if ok is None else f.bit_and(ok, inside)
            result = ok if result is None else self._both(result, ok, point)
        assert result is not None
        return result

    def _like(self, index: Value, scalar: Value) -> Value:
        return self.f.splat(scalar, lane_count(index.type))

    def _both(self, a: Value, b: Value, point: Point) -> Value:
        if a.type != b.type:
            a, b = self.all_lanes(point, a), self.all_lanes(point, b)
        return self.f.bit_and(a, b)

    # --- loads

    def element(self, access: Access) -> str:
        return memory_type(self.dtype(access))

    def dtype(self, access: Access) -> DType:
        return self.site.operands[access.operand].dtype

    def load(self, point: Point, access: Access, varies: bool) -> Value:
        """The value of a load; `varies`: whether lanes differ."""
        if not varies or point.lanes == 1:
            return self._load_one(point, access)
        f, dtype = self.f, self.dtype(access)
        kind = vector_type(point.lanes, self.element(access))
        base, offsets = self.address(point, access)
        mask = point.mask
        if access.bounds:
            inside = self.all_lanes(point, self.valid(point, access))
            mask = inside if mask is None else f.bit_and(mask, inside)
        near = self._neighbours(point, access)
        if near is None or offsets is None:
            raw = self._load_lanes(point, access, kind, (base, offsets), mask)
        else:
            start = f.gep(self.element(access), base, f.extract(offsets, 0))
            raw = f.choose(
                near,
                lambda: f.load(kind, start) if mask is None else f.masked_load(kind, start, mask, zero(kind)),
                lambda: self._load_lanes(point, access, kind, (base, offsets), mask),
                "near",
            )
        value = self.site.functions.widen(f, raw, dtype)
        if access.otherwise == NONE:
            return value
        assert mask is not None
        return f.select(mask, value, self.all_lanes(point, point.values[access.otherwise]))

    def _neighbours(self, point: Point, access: Access) -> Value | None:
        """Whether all lanes are neighbours in memory, where only the run knows; None if they never are."""
        if access.bounds or point.vector == NONE or access.coefficients[point.vector] != ZERO:
            return None
        varying = [one for one in access.lookups if lane_count(point.lookups[one.key].type) > 1]
        if len(varying) != 1 or varying[0].stride != ONE:
            return None
        return point.neighbours.get(varying[0].key)

    def _load_lanes(
        self, point: Point, access: Access, kind: str, location: tuple[Value, Value | None], mask: Value | None
    ) -> Value:
        f = self.f
        base, offsets = location
        step = access.coefficients[point.vector].constant if point.vector != NONE and not access.lookups else None
        if mask is None and step is not None and 1 < step <= MOST_SHUFFLED:
            return self._every_few(kind, base, step)
        if offsets is None and point.vector != NONE and access.coefficients[point.vector].constant == 0:
            offsets = constant(vector_type(point.lanes, "i64"), 0)
        if offsets is None:
            distance = self.prefetch_distance(access) if mask is None else None
            if distance is not None:
                f.prefetch(f.gep("i8", base, distance))
            return f.load(kind, base) if mask is None else f.masked_load(kind, base, mask, zero(kind))
        if mask is point.mask and mask is not None:
            # no branches: lanes that are off read what the first one reads
            offsets = f.select(mask, offsets, f.splat(f.extract(offsets, 0), point.lanes))
            mask = None
        on = constant(vector_type(point.lanes, "i1"), True) if mask is None else mask
        return f.gather(kind, self._pointers(access, base, offsets), on, zero(kind))

    def _every_few(self, kind: str, base: Value, step: int) -> Value:
        """Each `step`-th element: all vectors of the memory between the first and the last, and the lanes of them that
        are asked for. The last vector ends with the last lane, so that nothing behind it is read."""
        f, lanes, element = self.f, lane_count(kind), element_type(kind)
        starts = [lanes * number for number in range(step - 1)] + [(lanes - 1) * (step - 1)]
        first, *others = (f.load(kind, f.gep(element, base, i64(start))) for start in starts)
        value, at = first, [min(lane * step, lanes - 1) for lane in range(lanes)]
        for number, vector in enumerate(others, 1):
            inside = [min(max(lane * step - starts[number], 0), lanes - 1) for lane in range(lanes)]
            kept = [lane * step < lanes * number for lane in range(lanes)]
            value = f.shuffle(value, vector, [at[n] if kept[n] else lanes + inside[n] for n in range(lanes)])
            at = list(range(lanes))
        return value

    def _pointers(self, access: Access, base: Value, offsets: Value) -> Value:
        kind = vector_type(lane_count(offsets.type), "ptr")
        return self.f.assign(kind, f"getelementptr {self.element(access)}, {base}, {offsets}")

    def _load_one(self, point: Point, access: Access) -> Value:
        f, dtype = self.f, self.dtype(access)

        def read() -> Value:
            base, _ = self.address(point, access)
            return self.site.functions.widen(f, f.load(self.element(access), base), dtype)

        if not access.bounds:
            return read()
        otherwise = point.values[access.otherwise]
        return f.choose(self.valid(point, access), read, lambda: otherwise, "masked")

    # --- stores

    def store(self, point: Point, access: Access, value: Value, combine: str) -> None:
        """Write a value (already of the operand's element type); `combine` "add" adds it to what is there."""
        f, dtype = self.f, self.dtype(access)
        base, offsets = self.address(point, access)
        if point.lanes > 1:
            value = self.all_lanes(point, value)
            if access.coefficients[point.vector].constant == 0 and offsets is None:
                return self._store_one(point, base, dtype, value)
        kind = vector_type(point.lanes, self.element(access))
        location = (base, offsets)
        if combine:
            old = (
                f.load(kind, base) if point.lanes == 1 else self._load_lanes(point, access, kind, location, point.mask)
            )
            old = self.site.functions.widen(f, old, dtype)
            value = self.site.functions.apply(f, combine, [old, value], [dtype, dtype], dtype)
        raw = self.site.functions.narrow(f, value, dtype)
        if offsets is not None:
            return self._scatter(point, raw, self._pointers(access, base, offsets))
        if point.mask is None:
            return f.store(raw, base)
        f.masked_store(raw, base, point.mask)
        return None

    def _store_one(self, point: Point, base: Value, dtype: DType, value: Value) -> None:
        """All lanes write one element: the last one that is on wins, as in order."""
        f = self.f
        raw = self.site.functions.narrow(f, value, dtype)
        last: Value | int = point.lanes - 1
        if point.mask is not None:
            count = f.cast("bitcast", point.mask, f"i{point.lanes}")
            wide = f.resize(count, "i64", signed=False)
            last = f.sub(f.intrinsic("ctpop", wide), i64(1))
        f.store(f.extract(raw, last), base)

    def _scatter(self, point: Point, raw: Value, pointers: Value) -> None:
        f = self.f
        if point.mask is None:
            for lane in range(point.lanes):
                f.store(f.extract(raw, lane), f.extract(pointers, lane))
            return
        slots = f.alloca(raw.type)
        pointer_slots = f.alloca(pointers.type)
        f.store(raw, slots)
        f.store(pointers, pointer_slots)
        wide = f.cast("bitcast", point.mask, f"i{point.lanes}")
        count = f.intrinsic("ctpop", wide if point.lanes == 64 else f.resize(wide, "i64", signed=False))
        element = element_type(raw.type)
        with f.counted_loop(i64(0), count) as loop:
            where = f.load("ptr", f.gep("ptr", pointer_slots, loop.index))
            f.store(f.load(element, f.gep(element, slots, loop.index)), where)
