"""Folding values: identities, one step of a fold, and the fold across lanes and accumulators.

Guarantees a tree that depends on lanes, accumulators and length alone; minimum and maximum propagate NaN; argmin and
argmax take NaN first, then the lowest index of equal values; integers wrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dfc.ir.dtypes import I64, DType
from dfc.kernels.form import Reduction
from dfc_target_cpu.elementwise.functions import float_maximum, float_minimum
from dfc_target_cpu.elementwise.types import is_signed, register_type
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, is_floating, lane_count, like, poison, vector_type


@dataclass(frozen=True, slots=True)
class Fold:
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
        name, floating = self.reduction.combine, is_floating(a.type)
        if name in ("min", "max"):
            if floating:
                return (float_minimum if name == "min" else float_maximum)(f, b, a)
            if self.dtype.is_bool:
                return f.bit_and(a, b) if name == "min" else f.bit_or(a, b)
            return (f.minimum if name == "min" else f.maximum)(a, b, signed=is_signed(self.dtype))
        opcode = {"and": "and", "or": "or", "add": "fadd" if floating else "add", "mul": "fmul" if floating else "mul"}
        return f.binary(opcode[name], a, b)

    def _better(self, f: FunctionText, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """The better (value, index) of two, lane by lane."""
        largest = self.reduction.combine == "argmax"
        if is_floating(a[0].type):
            beats = f.fcmp("ogt" if largest else "olt", b[0], a[0])
            a_nan, b_nan = f.fcmp("uno", a[0], a[0]), f.fcmp("uno", b[0], b[0])
            only_b = f.bit_and(b_nan, f.fcmp("ord", a[0], a[0]))
            beats = f.bit_or(beats, only_b)
            equal = f.bit_or(f.fcmp("oeq", a[0], b[0]), f.bit_and(a_nan, b_nan))
        else:
            order = ("s" if is_signed(self.dtype) else "u") + ("gt" if largest else "lt")
            beats, equal = f.icmp(order, b[0], a[0]), f.icmp("eq", a[0], b[0])
        beats = f.bit_or(beats, f.bit_and(equal, f.icmp("slt", b[1], a[1])))
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
        chosen = self._place(f, value[1]) if self.is_search else value[0]
        kind = like(chosen.type, register_type(target))
        if chosen.type == kind:
            return chosen
        source = I64 if self.is_search else self.dtype
        if is_floating(kind) != is_floating(chosen.type):
            return f.cast("sitofp" if is_signed(source) else "uitofp", chosen, kind)
        return f.resize(chosen, kind, signed=is_signed(source))

    def _place(self, f: FunctionText, index: Value) -> Value:
        """The index that was found; 0 if there was no element."""
        none = self._no_index(lane_count(index.type))
        return f.select(f.icmp("eq", index, none), constant(index.type, 0), index)

    def masked(self, f: FunctionText, mask: Value | None, new: Sequence[Value]) -> list[Value]:
        """Lanes that are off fold the identity."""
        if mask is None or lane_count(new[0].type) == 1:
            return list(new)
        neutral = self.identity(lane_count(new[0].type))
        return [f.select(mask, a, b) for a, b in zip(new, neutral, strict=True)]
