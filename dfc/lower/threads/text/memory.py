"""Loads and stores of bodies as kernel text: offsets, masks, checked indices, wide accesses.

Assumes accesses of `dfc.kernels.access`. Guarantees that nothing outside the bounds of a masked access, beyond a
checked index, or in a lane that is off is touched, and that an element whose computation failed is not stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.access import NONE, Access, Bound, Lookup
from dfc.kernels.form import Operand
from dfc.kernels.printer import slot
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Point, affine_text, at, both, linear
from dfc.lower.threads.text.types import (
    memory_type,
    narrowed,
    rounded,
    shuffle_type,
    widened,
    zero,
    zero_in_memory,
)

_WIDEST = 16
"""Bytes of the widest access of a thread."""


class MemoryWriter(ABC):
    """Writes the accesses of one stage."""

    def __init__(self, lines: Lines, sizes: Sizes, operands: Sequence[Operand]) -> None:
        self.lines = lines
        self.sizes = sizes
        self.operands = operands

    # --- offsets

    def offset(self, point: Point, access: Access, lane: int) -> str:
        """Where an access goes, in elements."""
        text = linear(self.sizes, point, lane, enumerate(access.coefficients), access.offset)
        for lookup in access.lookups:
            stride, index = self.sizes.text(lookup.stride), self._looked_up(point, lookup, lane)
            part = index if stride == "1" else f"{stride} * {index}"
            text = part if text == "0" else f"{text} + {part}"
        return text

    def element_text(self, point: Point, access: Access) -> str:
        """The element of a plain access, as it lies in memory."""
        return f"{slot(access.operand)}[{self.offset(point, access, 0)}]"

    def _looked_up(self, point: Point, lookup: Lookup, lane: int) -> str:
        if lookup.affine is None:
            return at(point.lookups[lookup.key], lane)
        return f"quotient({affine_text(self.sizes, point, lane, lookup.affine)}, {lookup.interior})"

    def check_index(self, point: Point, lookup: Lookup, dtype: DType, varies: bool) -> None:
        """Makes a computed index known at the point: counted from the end where negative, reported where outside."""
        raw = point.values[lookup.instruction]
        conditions: list[str] = []
        checks: list[str] = []
        extent = self.sizes.text(lookup.extent)
        for lane in range(len(point.lanes) if varies else 1):
            index = self.lines.let(f"i64({at(raw, lane)})", "j")
            if lookup.fault == NONE:
                conditions.append(index)
                continue
            wrapped = index
            if dtype.kind == "signed":
                wrapped = self.lines.let(f"i64_select({index} < 0, {index} + {extent}, {index})", "j")
            inside = self.lines.let(both([f"{wrapped} >= 0", f"{wrapped} < {extent}"]), "ok")
            bad = both([*self._on(point, lane, varies), f"not {inside}"])
            with self.lines.block(f"if {bad}"):
                self.lines.add(f"report(error, {lookup.fault}, {index}, {extent})")
            conditions.append(wrapped)
            checks.append(inside)
        point.lookups[lookup.key] = conditions
        if checks:
            point.checked[lookup.key] = checks
            point.checks.append(checks)

    def check_second(self, function: str, point: Point, second: list[str], dtype: DType, site: int) -> None:
        """Reports a divisor that is zero, an exponent that is negative."""
        allowed = f"{dtype}_greater_equal" if function == "pow" else f"{dtype}_not_equal"
        checks: list[str] = []
        for lane, value in enumerate(second):
            fine = self.lines.let(f"{allowed}({value}, {zero(dtype)})", "ok")
            bad = both([*self._on(point, lane, len(second) > 1), f"not {fine}"])
            with self.lines.block(f"if {bad}"):
                self.lines.add(f"report(error, {site}, 0, 0)")
            checks.append(fine)
        point.checks.append(checks)

    def _on(self, point: Point, lane: int, varies: bool) -> list[str]:
        """Conditions of a lane; of what all lanes share, those of the point."""
        return point.conditions(lane) if varies or len(point.lanes) == 1 else [point.condition]

    # --- loads

    def load(self, point: Point, access: Access, varies: bool) -> list[str]:
        """The values of a load, one for each lane, or one for all."""
        key = access if point.kept is not None and not access.lookups and not access.bounds else None
        if key is not None and point.kept is not None and key in point.kept:
            return point.kept[key]
        if varies and access in point.wide:
            values = self._load_wide(point, access)
        else:
            values = [self._load_one(point, access, lane, varies) for lane in range(len(point.lanes) if varies else 1)]
        if key is not None and point.kept is not None and not point.axes.isdisjoint(access.axes()):
            point.kept[key] = values
        return values

    def _load_one(self, point: Point, access: Access, lane: int, varies: bool) -> str:
        dtype = self.operands[access.operand].dtype
        conditions = [*self._on(point, lane, varies), *self._fine(point, access, lane)]
        conditions += [self._inside(point, bound, lane) for bound in access.bounds]
        condition = both(conditions)
        memory, offset = slot(access.operand), self.offset(point, access, lane)
        if not condition:
            return self.lines.let(widened(f"{memory}[{offset}]", dtype))
        padding = "" if access.otherwise == NONE else at(point.values[access.otherwise], lane)
        kind, is_plain = memory_type(dtype), widened("x", dtype) == "x"
        if padding and not is_plain:
            condition = self.lines.let(condition, "on")
        outside = padding if padding and is_plain else zero_in_memory(dtype)
        value = widened(f"{kind}_load_if({memory}, {offset}, {condition}, {outside})", dtype)
        if padding and not is_plain:
            value = f"{shuffle_type(dtype)}_select({condition}, {value}, {padding})"
        return self.lines.let(value)

    def _fine(self, point: Point, access: Access, lane: int) -> list[str]:
        """Whether the computed indices of an access are inside."""
        return [at(point.checked[lookup.key], lane) for lookup in access.lookups if lookup.key in point.checked]

    def _inside(self, point: Point, bound: Bound, lane: int) -> str:
        """Whether a masked axis holds an element there."""
        index = affine_text(self.sizes, point, lane, bound.affine)
        if not index.isidentifier():
            index = self.lines.let(index, "j")
        extent = self.sizes.text(bound.extent * bound.interior)
        inside = [f"{index} >= 0", f"{index} < {extent}"]
        return both([*inside, *([f"remainder({index}, {bound.interior}) == 0"] if bound.interior > 1 else [])])

    def _load_wide(self, point: Point, access: Access) -> list[str]:
        """By groups of neighbours, each with as few accesses as there can be."""
        dtype = self.operands[access.operand].dtype
        raws: list[str] = []
        for first in range(0, len(point.lanes), point.group):
            names = [self.lines.name() for _ in range(point.group)]
            where = both([*point.conditions(first), *self._fine(point, access, first)])
            if where:
                for name in names:
                    self.lines.add(f"{name} = {memory_type(dtype)}(0)")
            with self.lines.guarded(where):
                self._load_group(point, access, first, names)
            raws += names
        return raws if widened("x", dtype) == "x" else [self.lines.let(widened(raw, dtype)) for raw in raws]

    def _load_group(self, point: Point, access: Access, first: int, names: Sequence[str]) -> None:
        dtype = self.operands[access.operand].dtype
        for start, count in _pieces(point.group, dtype):
            offset = self.offset(point, access, first + start)
            load = f"load{count}_{memory_type(dtype)}({slot(access.operand)}, {offset})"
            self.lines.add(f"{', '.join(names[start : start + count])} = {load}")

    # --- stores

    def store(self, point: Point, access: Access, values: list[str], combine: str) -> None:
        """Writes the lanes of a value (already of the operand's element type); `combine` "add" adds to what is there.

        Where lanes go to one element they go there one after the other."""
        dtype = self.operands[access.operand].dtype
        if not combine and access in point.wide:
            self._store_wide(point, access, values, dtype)
        else:
            for lane in range(len(point.lanes)):
                self._store_one(point, access, at(values, lane), lane, combine)
        self.keep(point, access, values)

    def _store_one(self, point: Point, access: Access, value: str, lane: int, combine: str) -> None:
        dtype = self.operands[access.operand].dtype
        memory, offset = slot(access.operand), self.offset(point, access, lane)
        condition = both([*point.conditions(lane), *self._all_checks(point, lane)])
        if condition and not combine:
            stored = narrowed(value, dtype)
            self.lines.add(f"{memory_type(dtype)}_store_if({memory}, {offset}, {stored}, {condition})")
            return
        with self.lines.guarded(condition):
            if combine:
                offset = self.lines.let(offset, "j")
                old = self.lines.let(widened(f"{memory}[{offset}]", dtype))
                value = self.lines.let(self.sum(old, value, dtype))
            self.lines.add(f"{memory}[{offset}] = {narrowed(value, dtype)}")

    @abstractmethod
    def sum(self, old: str, value: str, dtype: DType) -> str:
        """What is stored where a value is added to an old one, as text."""

    def _all_checks(self, point: Point, lane: int) -> list[str]:
        return [at(checks, lane) for checks in point.checks]

    def _store_wide(self, point: Point, access: Access, values: list[str], dtype: DType) -> None:
        for first in range(0, len(point.lanes), point.group):
            checks = [one for lane in range(first, first + point.group) for one in self._all_checks(point, lane)]
            with self.lines.guarded(both([*point.conditions(first), *checks])):
                for start, count in _pieces(point.group, dtype):
                    lanes = range(first + start, first + start + count)
                    stored = ", ".join(narrowed(at(values, lane), dtype) for lane in lanes)
                    offset = self.offset(point, access, first + start)
                    self.lines.add(f"store{count}_{memory_type(dtype)}({slot(access.operand)}, {offset}, {stored})")

    def keep(self, point: Point, access: Access, values: list[str]) -> None:
        """Later loads through the same access have what was stored; other views of the buffer are forgotten."""
        kept, dtype = point.kept, self.operands[access.operand].dtype
        if kept is None:
            return
        for other in [one for one in kept if one.operand == access.operand]:
            del kept[other]
        if not access.lookups:
            same = rounded("x", dtype) == "x"
            kept[access] = values if same else [self.lines.let(rounded(value, dtype)) for value in values]


def _pieces(count: int, dtype: DType) -> list[tuple[int, int]]:
    """(first, count) of the accesses for so many neighbours."""
    most = min(count, _WIDEST // dtype.size)
    return [(first, most) for first in range(0, count, most)]
