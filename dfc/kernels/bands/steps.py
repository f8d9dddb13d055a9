"""The steps of a band: what each one leaves beyond the border, and whether it may do without what is there.

A reduction may if what is beyond is neutral: 0 in a sum, no more than the result in a maximum. A product may if it sums
over the columns and its factor is 0 beyond, or if the columns are its own and later steps do not need them. What a row
computes to be 0 beyond the border is a claim, if a later step rests on it: it is checked of each row.

Assumes steps whose axis of columns is known. Guarantees nothing of a step that is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import BOOL
from dfc.kernels.bands.beyond import Border, beyond, is_zero
from dfc.kernels.bands.columns import StepPanels, Version
from dfc.kernels.body import Apply, BodyBuilder, Index, Instruction, Load, Number, Reduced
from dfc.kernels.contractions import as_product
from dfc.kernels.form import ContractKernel, LoopKernel, Reduction, RowStep, Stage, Store

Claims = set[Version]
"""Panels that have to be 0 beyond the border, of which each row can say whether they are."""


UNDERFLOW = {"f16": -110, "bf16": -110, "f32": -110, "f64": -750}
"""What `exp` is 0 of, and of all that is less: f16 and bf16 are computed in f32."""
_EXPONENTIALS = ("exp", "exp_of_nonpositive")


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What a panel would hold beyond the border: a number; or what may be claimed to be 0; or anything."""

    number: Instruction | None = None
    claimable: bool = False


Panels = dict[Version, Unwritten]


@dataclass(frozen=True, slots=True)
class BandedStep:
    """`check` says at `holds` of a row whether what is beyond the border counts for nothing; without it, it does."""

    check: tuple[Instruction, ...] | None = None
    holds: int = 0

    def check_stage(self, slot: int, index: tuple[Index, ...]) -> Stage:
        """The stage that stores it."""
        assert self.check is not None
        return Stage((), self.check, (), (Store(slot, index, self.holds),))


@dataclass(slots=True)
class _Row:
    """The body of a row beyond the border, and what has to be true there."""

    body: BodyBuilder = field(default_factory=BodyBuilder)
    conditions: list[int] = field(default_factory=list[int])
    zeros: set[int] = field(default_factory=set[int])

    def held(self, panel: Unwritten, version: Version, claims: Claims, load: Instruction | None) -> int | None:
        """What a panel that a step before this one wrote holds, as an instruction."""
        if panel.number is not None:
            return self.body.append(panel.number.operation, (), panel.number.dtype)
        return self.body.number(0, load.dtype) if version in claims and load is not None else None

    def zero(self, position: int) -> None:
        """Demands that a value is 0. An exponential is, of what is low enough."""
        if self._is_zero(position):
            return
        one = self.body.instructions[position]
        function = one.operation.function if isinstance(one.operation, Apply) else ""
        if function in _EXPONENTIALS and one.dtype.name in UNDERFLOW:
            low = self.body.number(UNDERFLOW[one.dtype.name], one.dtype)
            self.conditions.append(self.body.apply("less_equal", one.arguments[0], low))
        else:
            nothing = self.body.number(0, one.dtype)
            self.conditions.append(self.body.apply("equal", position, nothing))
        self.zeros.add(position)

    def _is_zero(self, position: int) -> bool:
        """Whether a value is 0 if all is that has to be: a product with 0 is, and 0 of another type."""
        one = self.body.instructions[position]
        function = one.operation.function if isinstance(one.operation, Apply) else ""
        factors = one.arguments if function in ("mul", "cast") else ()
        return position in self.zeros or is_zero(self.body, position) or any(map(self._is_zero, factors))

    def step(self) -> BandedStep:
        if not self.conditions:
            return BandedStep()
        holds, *others = dict.fromkeys(self.conditions)
        for other in others:
            holds = self.body.apply("and", holds, other, dtype=BOOL)
        return BandedStep(*_needed(self.body.instructions, holds))


def _needed(body: Sequence[Instruction], last: int) -> tuple[tuple[Instruction, ...], int]:
    """The instructions that one of a body needs, and where it is then."""
    needed = {last}
    for position in range(last, -1, -1):
        if position in needed:
            needed.update(body[position].arguments)
    numbers = {position: number for number, position in enumerate(sorted(needed))}
    kept = (body[position] for position in numbers)
    return tuple(replace(one, arguments=tuple(numbers[n] for n in one.arguments)) for one in kept), numbers[last]


def banded_loop(
    step: RowStep, own: StepPanels, axis: int, border: Border, panels: Panels, claims: Claims
) -> BandedStep | None:
    """A loop kernel, whose rows compute what they hold beyond the border. A map may have the columns as an outer axis,
    and then has nothing to check by row."""
    kernel = step.kernel
    assert isinstance(kernel, LoopKernel)
    inner = () if axis < kernel.outer else (axis,)
    row = _Row()
    held = _held(own, axis, panels, claims, row, [stage.body for stage in kernel.stages])
    for number, stage in enumerate(kernel.stages):
        if inner and axis not in stage.axes:
            continue
        if stage.axes != inner or (not inner and stage.reductions):
            return None
        values = beyond(stage.body, border, axis, held, row.body)
        if not all(_is_neutral(one, values[one.value], number, n, row) for n, one in enumerate(stage.reductions)):
            return None
        for store in stage.stores:
            if store.operand not in held or store.combine:
                return None
            held[store.operand] = values[store.value]
    for slot, version in own.writes.items():
        if own.along[slot] == axis:
            _leave(version, held[slot], row, panels, claims)
    return row.step() if inner or not row.conditions else None


def banded_product(
    step: RowStep, own: StepPanels, axis: int, border: Border, panels: Panels, claims: Claims
) -> BandedStep | None:
    """A product along the columns, or over them."""
    kernel = step.kernel
    assert isinstance(kernel, ContractKernel)
    matched = as_product(kernel)
    if matched is None or not (matched.a.is_strided and matched.b.is_strided):
        return None
    if axis == kernel.k or step.sums_over_rows:
        factors = {slot: version for slot, version in own.reads.items() if own.along[slot] == axis}
        is_read = {one.operand for one in (kernel.a, kernel.b)} >= set(factors) and len(factors) == 1
        return BandedStep() if is_read and all(_is_claimed(one, panels, claims) for one in factors.values()) else None
    if axis != kernel.n or any(store.operand not in own.writes or store.combine for store in kernel.stores):
        return None
    row = _Row()
    held = _held(own, axis, panels, claims, row, [kernel.epilogue])
    values = beyond(kernel.epilogue, border, axis, held, row.body)
    for store in kernel.stores:
        position = values[store.value]
        one = None if position is None else row.body.instructions[position]
        is_number = one is not None and isinstance(one.operation, Number)
        panels[own.writes[store.operand]] = Unwritten(one if is_number else None)
    return BandedStep()


def _held(
    own: StepPanels, axis: int, panels: Panels, claims: Claims, row: _Row, bodies: Sequence[Sequence[Instruction]]
) -> dict[int, int | None]:
    """What the panels of a step that have columns hold beyond the border before it."""
    loads = {one.operation.operand: one for body in bodies for one in body if isinstance(one.operation, Load)}
    held: dict[int, int | None] = {slot: None for slot in own.along if own.along[slot] == axis}
    for slot, version in own.reads.items():
        if slot in held:
            held[slot] = row.held(panels.get(version, Unwritten()), version, claims, loads.get(slot))
    return held


def _is_neutral(one: Reduction, value: int | None, stage: int, number: int, row: _Row) -> bool:
    """Whether a value may be left out of a reduction, perhaps under a condition."""
    if value is None:
        return False
    if one.combine == "add":
        row.zero(value)
        return True
    function = {"max": "greater_equal", "min": "less_equal"}.get(one.combine)
    if function is None or one.dtype != row.body.dtype(value):
        return False
    result = row.body.append(Reduced(stage, number), (), one.dtype)
    row.conditions.append(row.body.apply(function, result, value))
    return True


def _leave(version: Version, position: int | None, row: _Row, panels: Panels, claims: Claims) -> None:
    """Notes what a panel would hold, which a row may have computed."""
    one = None if position is None else row.body.instructions[position]
    if one is None or position is None:
        panels[version] = Unwritten()
    elif isinstance(one.operation, Number):
        panels[version] = Unwritten(one)
    else:
        panels[version] = Unwritten(claimable=True)
        if version in claims:
            row.zero(position)


def _is_claimed(version: Version, panels: Panels, claims: Claims) -> bool:
    """Whether a panel is 0 beyond the border; what may be is claimed to be."""
    panel = panels.get(version, Unwritten())
    if panel.number is not None:
        body = BodyBuilder()
        return is_zero(body, body.append(panel.number.operation, (), panel.number.dtype))
    if panel.claimable:
        claims.add(version)
    return panel.claimable
