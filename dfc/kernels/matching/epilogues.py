"""What a kernel does with finished sums, as far as a library of matrix products does the same.

    result = scale * product + sign * added + bias

Pure analysis of the epilogue of a contraction. Guarantees the roundings of the kernel: the library may take a factor
and a sum in one step, so a scale other than 1 and -1 goes with no sum. Its relu may lose a NaN, which the language
keeps, and its gelu is made with tanh, the language's with erf: neither is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim
from dfc.kernels.access import Access, linear_access
from dfc.kernels.body import Accumulated, Apply, Instruction, Load, Number
from dfc.kernels.form import ContractKernel, Store


class Unfit(Exception):
    """A library does not do that; the message says what."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`sign` is 0 without `added`; `bias` is an operand and where it begins."""

    result: Access
    scale: float
    sign: int
    added: Access | None
    bias: tuple[int, Dim] | None


def find_ending(kernel: ContractKernel, row: int, column: int) -> Ending:
    """With the rows of the result along this axis of the kernel. `Unfit` says what a library does not do."""
    if len(kernel.stores) != 1:
        raise Unfit("it has several results")
    store = kernel.stores[0]
    result = linear_access(kernel.operands, len(kernel.axes), store.operand, store.index)
    factor, result_type = kernel.operands[kernel.a.operand].dtype, kernel.operands[store.operand].dtype
    if store.combine or result.lookups:
        raise Unfit("its results are scattered")
    if result_type not in (kernel.accumulator, factor):
        raise Unfit(f"its results are {result_type.name}")
    if any(one.operand == store.operand for one in (kernel.a, kernel.b)):
        raise Unfit("it writes over a factor")
    return _Ending(kernel, store, result, row, column).ending()


class _Ending:
    """Takes the value that is stored apart, from the outside in."""

    def __init__(self, kernel: ContractKernel, store: Store, result: Access, row: int, column: int) -> None:
        self._kernel, self._store, self._result = kernel, store, result
        self._row, self._column = row, column
        self._body = kernel.epilogue

    def ending(self) -> Ending:
        value = self._body[self._store.value]
        if _is(value, "cast") and self._body[value.arguments[0]].dtype == self._kernel.accumulator:
            value = self._body[value.arguments[0]]
        value, bias = self._without_bias(value)
        value, added, sign, turned = self._without_added(value)
        value, scale = self._without_scale(value)
        if not isinstance(value.operation, Accumulated):
            raise Unfit(f"what follows is more than a library does: {_operand_text(value)}")
        if abs(scale) != 1 and (added is not None or bias is not None):
            raise Unfit("a library may round a factor and a sum together")
        if self._writes_elsewhere(added):
            raise Unfit("it reads its result at other places")
        return Ending(self._result, -scale if turned else scale, sign, added, bias)

    def _writes_elsewhere(self, added: Access | None) -> bool:
        """Whether the result is read and is not what is added, at the same places."""
        if self._kernel.operands[self._result.operand].access == "write":
            return False
        if added is None or added.operand != self._result.operand:
            return True
        return added.coefficients != self._result.coefficients or added.offset != self._result.offset

    def _without_bias(self, value: Instruction) -> tuple[Instruction, tuple[int, Dim] | None]:
        if _is(value, "add"):
            for other, rest in self._pairs(value):
                access = self._loaded(other)
                if access is None or access.coefficients[self._row] != ONE:
                    continue
                if all(one == ZERO for axis, one in enumerate(access.coefficients) if axis != self._row):
                    return rest, (access.operand, access.offset)
        return value, None

    def _without_added(self, value: Instruction) -> tuple[Instruction, Access | None, int, bool]:
        """What is left, what is added with which sign, and whether what is left counts negative."""
        if _is(value, "add"):
            for other, rest in self._pairs(value):
                access = self._matrix(other)
                if access is not None:
                    return rest, access, 1, False
        if _is(value, "sub"):
            left, right = (self._body[number] for number in value.arguments)
            access = self._matrix(left)
            if access is not None:
                return right, access, 1, True
            access = self._matrix(right)
            if access is not None:
                return left, access, -1, False
        return value, None, 0, False

    def _without_scale(self, value: Instruction) -> tuple[Instruction, float]:
        if _is(value, "neg"):
            return self._body[value.arguments[0]], -1.0
        if _is(value, "mul"):
            for other, rest in self._pairs(value):
                if isinstance(other.operation, Number):
                    scale = float(np.frombuffer(other.operation.bits, other.dtype.numpy)[0])
                    if math.isfinite(scale) and scale:  # a library leaves the product out where the scale is zero
                        return rest, scale
        return value, 1.0

    def _pairs(self, value: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        left, right = (self._body[number] for number in value.arguments)
        yield left, right
        yield right, left

    def _matrix(self, value: Instruction) -> Access | None:
        """Numbers of the type of the result, one for each, that lie together where the results do."""
        access = self._loaded(value)
        fits = (
            access is not None and access.coefficients[self._row] == ONE and access.coefficients[self._column] != ZERO
        )
        return access if fits else None

    def _loaded(self, value: Instruction) -> Access | None:
        """A plain load of the type of the result, widened or not."""
        kernel = self._kernel
        if _is(value, "cast") and value.dtype == kernel.accumulator:
            value = self._body[value.arguments[0]]
        if not isinstance(value.operation, Load) or value.dtype != kernel.operands[self._store.operand].dtype:
            return None
        load = value.operation
        access = linear_access(kernel.operands, len(kernel.axes), load.operand, load.index, load)
        return None if access.lookups or access.bounds else access


def _is(one: Instruction, function: str) -> bool:
    return isinstance(one.operation, Apply) and one.operation.function == function


def _operand_text(value: Instruction) -> str:
    """The last step of it in a word."""
    return value.operation.function if isinstance(value.operation, Apply) else "a value of its own"
