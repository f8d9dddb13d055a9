"""Where loads and stores of a kernel go: index maps as element offsets that are linear in the kernel's axes.

Pure analysis: no code is made here. Assumes a well-formed kernel (one index per axis of the operand). Guarantees that
offset = sum of coefficient * axis + offset + the lookups, counted in elements of the operand.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import KNOWN, ONE, ZERO, Dim, dim
from dfc.kernels.body import Affine, Apply, AxisIndex, Computed, Index, Instruction, Load
from dfc.kernels.form import LoopKernel, Operand, Stage, Store

NONE = -1
IndexKey = tuple[int, int, Dim]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A part of an offset that is not linear: `index * stride`, where the index is the value of an instruction (checked
    against `extent`), or `affine // interior` of a dilated axis."""

    stride: Dim
    extent: Dim
    instruction: int = NONE
    fault: int = NONE
    affine: Affine | None = None
    interior: int = 1

    @property
    def key(self) -> "IndexKey":
        """Lookups of one key have the same checked index."""
        return self.instruction, self.fault, self.extent


@dataclass(frozen=True, slots=True)
class Bound:
    """What a masked axis demands: a multiple of `interior`, and 0 <= affine // interior < extent."""

    affine: Affine
    extent: Dim
    interior: int


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store."""

    operand: int
    coefficients: tuple[Dim, ...]
    offset: Dim
    lookups: tuple[Lookup, ...] = ()
    bounds: tuple[Bound, ...] = ()
    otherwise: int = NONE

    def named_axes(self) -> set[int]:
        """Axes whose own index matters, not only where it leads: they cannot be merged with others."""
        affines = [bound.affine for bound in self.bounds]
        affines += [lookup.affine for lookup in self.lookups if lookup.affine is not None]
        return {axis for affine in affines for axis, _ in affine.terms}

    def arguments(self) -> list[int]:
        """Instructions it needs."""
        needed = [lookup.instruction for lookup in self.lookups if lookup.instruction != NONE]
        return [*needed, self.otherwise] if self.otherwise != NONE else needed

    def axes(self) -> set[int]:
        """Axes it depends on directly."""
        return self.named_axes() | {axis for axis, c in enumerate(self.coefficients) if c != ZERO}


@lru_cache(maxsize=KNOWN)
def strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Elements between neighbours along each axis of a row-major buffer."""
    strides_: list[Dim] = []
    step = ONE
    for extent in reversed(shape):
        strides_.append(step)
        step = step * extent
    return tuple(reversed(strides_))


def linear_access(
    operands: Sequence[Operand], axes: int, operand: int, index: Sequence[Index], load: Load | None = None
) -> Access:
    """The access of one load (with its mask) or store."""
    shape = operands[operand].shape
    coefficients, offset = [ZERO] * axes, ZERO
    lookups: list[Lookup] = []
    bounds: list[Bound] = []
    interiors = {} if load is None or load.mask is None else dict(load.mask.indices)
    for position, (one, stride, extent) in enumerate(zip(index, strides(shape), shape, strict=True)):
        if isinstance(one, Computed):
            lookups.append(Lookup(stride, extent, instruction=one.instruction, fault=one.fault))
            continue
        interior = interiors.get(position, 1)
        if position in interiors:
            bounds.append(Bound(one, extent, interior))
        if interior > 1:
            lookups.append(Lookup(stride, extent, affine=one, interior=interior))
            continue
        offset = offset + stride * one.offset
        for axis, factor in one.terms:
            coefficients[axis] = coefficients[axis] + stride * dim(factor)
    otherwise = NONE if load is None or load.mask is None else load.mask.otherwise
    return Access(operand, tuple(coefficients), offset, tuple(lookups), tuple(bounds), otherwise)


@dataclass(frozen=True, slots=True)
class StageAccess:
    """The accesses of a stage: loads by instruction number, stores in order."""

    loads: dict[int, Access]
    stores: tuple[Access, ...]

    def all(self) -> Iterable[Access]:
        yield from self.loads.values()
        yield from self.stores


def stage_access(
    operands: Sequence[Operand], axes: int, body: Sequence[Instruction], stores: Sequence[Store]
) -> StageAccess:
    """Where each load and each store of a body goes."""
    loads = {
        number: linear_access(operands, axes, one.operation.operand, one.operation.index, one.operation)
        for number, one in enumerate(body)
        if isinstance(one.operation, Load)
    }
    return StageAccess(loads, tuple(linear_access(operands, axes, s.operand, s.index) for s in stores))


def named_axes(body: Sequence[Instruction], access: StageAccess) -> set[int]:
    """Axes that a body uses by their index."""
    axes = {one.operation.axis for one in body if isinstance(one.operation, AxisIndex)}
    for one in access.all():
        axes |= one.named_axes()
    return axes


def kernel_access(kernel: LoopKernel) -> list[StageAccess]:
    return [stage_access(kernel.operands, len(kernel.axes), stage.body, stage.stores) for stage in kernel.stages]


def written_operands(stages: Sequence[Stage]) -> frozenset[int]:
    return frozenset(store.operand for stage in stages for store in stage.stores)


def can_fault(body: Sequence[Instruction], access: StageAccess) -> bool:
    """Whether running the body may report an error."""
    if any(lookup.fault != NONE for one in access.all() for lookup in one.lookups):
        return True
    return any(isinstance(one.operation, Apply) and one.operation.fault >= 0 for one in body)


def dependencies(one: Instruction, load: Access | None) -> list[int]:
    """Instructions that an instruction needs, those of its index included."""
    return [*one.arguments, *(load.arguments() if load is not None else ())]
