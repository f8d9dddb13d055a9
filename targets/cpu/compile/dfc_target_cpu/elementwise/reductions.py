"""Folding values: identities, one step of a fold, and the fold across lanes and accumulators.

Guarantees a tree that depends on lanes, accumulators and length alone; minimum and maximum propagate NaN; argmin and
argmax take NaN first, then the lowest index of equal values; integers wrap.
"""

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import I64, DType
from dfc.kernels.form import Reduction
from dfc.kernels.primitives import register_type as register
from dfc.lower.legalise.meaning import meaning, search
from dfc_target_cpu.elementwise.kernel_functions import plain
from dfc_target_cpu.elementwise.types import is_signed, register_type
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, is_floating, lane_count, like, poison, vector_type

_COMBINE = {"min": "minimum", "max": "maximum"}


@dataclass(frozen=True, slots=True)
class TypedReduction:
    """A reduction of values of type `dtype` (the type of what is folded, not always that of the result)."""

    reduction: Reduction
    dtype: DType

    @property
    def is_search(self) -> bool:
        """argmin and argmax keep a value and its index."""
        return self.reduction.combine in ("argmax", "argmin")

    def types(self, lanes: int) -> list[str]:
        """The types of one accumulator."""
        value = vector_type(lanes, register_type(self.dtype))
        return [value, vector_type(lanes, "i64")] if self.is_search else [value]

    def identity(self, lanes: int) -> list[Value]:
        kind = vector_type(lanes, register_type(self.dtype))
        if self.is_search:
            return [constant(kind, self._extreme(largest=self.reduction.combine == "argmin")), self._no_index(lanes)]
        name = self.reduction.combine
        if name in ("min", "max"):
            return [constant(kind, self._extreme(largest=name == "min"))]
        return [constant(kind, {"add": 0, "or": 0, "mul": 1, "and": -1}[name])]

    def _no_index(self, lanes: int) -> Value:
        """Above every index, so that any element beats it."""
        return constant(vector_type(lanes, "i64"), (1 << 63) - 1)

    def _extreme(self, *, largest: bool) -> float | int:
        if self.dtype.is_float:
            return float("inf") if largest else float("-inf")
        bits = 1 if self.dtype.is_bool else 8 * self.dtype.size
        if not is_signed(self.dtype):
            return (1 << bits) - 1 if largest else 0
        return (1 << (bits - 1)) - 1 if largest else -(1 << (bits - 1))

    def combine(self, f: FunctionText, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """One step; `a` comes first in order."""
        if self.is_search:
            return self._better(f, a, b)
        return [self._combine(f, a[0], b[0])]

    def _combine(self, f: FunctionText, a: Value, b: Value) -> Value:
        name = _COMBINE.get(self.reduction.combine, self.reduction.combine)
        first, second = (b, a) if name in ("minimum", "maximum") else (a, b)
        return plain(f, meaning(name, (self.dtype, self.dtype), self.dtype), first, second)

    def _better(self, f: FunctionText, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """The better (value, index) of two, lane by lane."""
        keeps = search(register(self.dtype), largest=self.reduction.combine == "argmax")
        beats = plain(f, keeps, b[0], b[1], a[0], a[1])
        return [f.select(beats, b[0], a[0]), f.select(beats, b[1], a[1])]

    def across(self, f: FunctionText, value: Sequence[Value]) -> list[Value]:
        """All lanes as one: halves folded into each other."""
        lanes = lane_count(value[0].type)
        while lanes > 1:
            lanes //= 2
            low = [f.shuffle(v, poison(v.type), range(lanes)) for v in value]
            high = [f.shuffle(v, poison(v.type), range(lanes, 2 * lanes)) for v in value]
            value = self.combine(f, low, high)
        return list(value)

    def result(self, f: FunctionText, value: Sequence[Value]) -> Value:
        """What later stages see: in the register type of the reduction's result."""
        target = self.reduction.dtype
        chosen = self._index_of(f, value[1]) if self.is_search else value[0]
        kind = like(chosen.type, register_type(target))
        if chosen.type == kind:
            return chosen
        source = I64 if self.is_search else self.dtype
        if is_floating(kind) != is_floating(chosen.type):
            return f.cast("sitofp" if is_signed(source) else "uitofp", chosen, kind)
        return f.resize(chosen, kind, signed=is_signed(source))

    def _index_of(self, f: FunctionText, index: Value) -> Value:
        """The index that was found; 0 if there was no element."""
        none = self._no_index(lane_count(index.type))
        return f.select(f.icmp("eq", index, none), constant(index.type, 0), index)

    def masked(self, f: FunctionText, mask: Value | None, new: Sequence[Value]) -> list[Value]:
        """Lanes that are off fold the identity."""
        if mask is None or lane_count(new[0].type) == 1:
            return list(new)
        neutral = self.identity(lane_count(new[0].type))
        return [f.select(mask, a, b) for a, b in zip(new, neutral, strict=True)]
