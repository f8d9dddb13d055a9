"""Folds as kernel text: identities, one step, the way of partial results between lanes, and the finished result.

Guarantees that minimum and maximum propagate NaN; argmin and argmax take NaN first, then the lowest index of equal
values; integers wrap. A step does not depend on the order of its two sides (but for the sign of a zero that is the
minimum or maximum: `has_sides`), so that lanes which exchange partial results all have the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import BOOL, I64, DType
from dfc.kernels.form import Reduction
from dfc.lower.threads.text.functions import cast
from dfc.lower.threads.text.lines import Lines
from dfc.lower.threads.text.types import computing_type, float_literal, memory_type, shuffle_type

NO_INDEX = f"i64({(1 << 63) - 1})"
"""Above every index, so that any element beats it."""
_OF_BOOL = {"and": "and", "min": "and", "mul": "and", "or": "or", "max": "or"}
_NEUTRAL = {"add": 0, "or": 0, "mul": 1, "and": 1}


@dataclass(frozen=True, slots=True)
class TypedReduction:
    """A reduction of values of type `dtype` (the type of what is folded, not always that of the result)."""

    reduction: Reduction
    dtype: DType

    @property
    def is_search(self) -> bool:
        """argmin and argmax keep a value and its index."""
        return self.reduction.combine in ("argmax", "argmin")

    @property
    def has_sides(self) -> bool:
        """Whether a step may give the zero of the one side or of the other."""
        return self.reduction.combine in ("min", "max") and self.dtype.is_float

    @property
    def types(self) -> tuple[DType, ...]:
        """Of what is kept: as it lies in memory while lanes and blocks exchange it."""
        value = self.dtype.accumulator
        return (value, I64) if self.is_search else (value,)

    def identity(self) -> list[str]:
        name = self.reduction.combine
        if self.is_search:
            return [self._extreme(largest=name == "argmin"), NO_INDEX]
        if name in ("min", "max"):
            return [self._extreme(largest=name == "min")]
        if self.dtype.is_bool:
            return [str(bool(_NEUTRAL[name]))]
        if name == "and":
            return [f"{self.dtype}({-1 if self.dtype.kind == 'signed' else (1 << 8 * self.dtype.size) - 1})"]
        number = f"{_NEUTRAL[name]}.0" if self.dtype.is_float else f"{_NEUTRAL[name]}"
        return [f"{computing_type(self.dtype)}({number})"]

    def _extreme(self, *, largest: bool) -> str:
        kind = computing_type(self.dtype)
        if self.dtype.is_float:
            return float_literal(kind, float("inf") if largest else float("-inf"))
        if self.dtype.is_bool:
            return str(largest)
        bits = 8 * self.dtype.size - (self.dtype.kind == "signed")
        least = -(1 << bits) if self.dtype.kind == "signed" else 0
        return f"{kind}({(1 << bits) - 1 if largest else least})"

    def step(self, lines: Lines, kept: Sequence[str], new: Sequence[str], condition: str = "") -> None:
        """`kept` folded with `new`, both named; without change where there is a condition that does not hold."""
        if self.is_search:
            return self._search(lines, kept, new, condition)
        name, kind = self._exchanged(), shuffle_type(self.dtype)
        sides = (new[0], kept[0]) if name in ("minimum", "maximum") else (kept[0], new[0])
        value = f"{kind}_{name}({', '.join(sides)})"
        lines.add(f"{kept[0]} = {f'{kind}_select({condition}, {value}, {kept[0]})' if condition else value}")
        return None

    def _search(self, lines: Lines, kept: Sequence[str], new: Sequence[str], condition: str) -> None:
        """NaN beats numbers; of equals the lower index wins."""
        side = "above" if self.reduction.combine == "argmax" else "below"
        kind = "bool" if self.dtype.is_bool else computing_type(self.dtype)
        better = f"{kind}_{side}({new[0]}, {new[1]}, {kept[0]}, {kept[1]})"
        name = lines.let(f"both({condition}, {better})" if condition else better, "better")
        for dtype, old, one in zip(self.types, kept, new, strict=True):
            lines.add(f"{old} = {shuffle_type(dtype)}_select({name}, {one}, {old})")

    def exchange(self, lines: Lines, kept: Sequence[str], mask: int) -> None:
        """Lanes of a warp whose numbers differ in bits up to that of `mask` fold what they have kept."""
        if not self.is_search:
            lines.add(f"{kept[0]} = {shuffle_type(self.dtype)}_warp_{self._exchanged()}({kept[0]}, {mask})")
            return
        kinds = [shuffle_type(dtype) for dtype in self.types]
        while mask:
            pairs = zip(kinds, kept, strict=True)
            self.step(lines, kept, [lines.let(f"shuffle_xor_{kind}({one}, {mask})", "other") for kind, one in pairs])
            mask //= 2

    def _exchanged(self) -> str:
        """What one step is called behind its type."""
        name = self.reduction.combine
        if self.dtype.is_bool:
            return _OF_BOOL[name]
        return {"min": "minimum", "max": "maximum"}.get(name, name)

    def result(self, lines: Lines, kept: Sequence[str]) -> str:
        """What later stages see, in the computing type of the reduction's result."""
        target = self.reduction.dtype.accumulator
        source = self.types[0]
        value = kept[0]
        if self.is_search:
            source, value = I64, f"i64_select({kept[1]} == {NO_INDEX}, 0, {kept[1]})"
        return lines.let(cast(value, source, target), "fold")


def storage_type(dtype: DType) -> str:
    """Memory that holds a partial result."""
    return memory_type(dtype.accumulator)


def to_memory(value: str, dtype: DType) -> str:
    return f"u8({value})" if dtype == BOOL else value


def from_memory(text: str, dtype: DType) -> str:
    return f"boolean({text})" if dtype == BOOL else text
