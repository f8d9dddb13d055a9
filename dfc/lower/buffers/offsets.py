"""Kernels that differ by constant offsets of their indices alone become one, where there are many of them.

Before: 200 kernels for the parts of a wide `concat`: `b[i0, i1] := ..`, `b[i0, i1 + 4] := ..`, `b[i0, i1 + 8] := ..`
After: one, `b[i0, i1 + d1] := ..`, whose launches bind d1 = 0, 4, 8, .., as they bind the sizes of the call.

A target compiles each kernel by itself, which takes longer than all else that is done with a part. A few kernels stay
as they are: what is known of an offset may make faster code. Assumes canonical kernels (`dfc.kernels.canonical`).
Guarantees that each launch reads and writes what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dfc.ir.dims import Dim, Symbol, dim
from dfc.kernels.body import Affine, Index, Instruction, Load
from dfc.kernels.canonical import symbol_count
from dfc.kernels.form import Kernel, LoopKernel
from dfc.kernels.program import For, If, Launch, Locked, Parallel, Program, Step, While

MANY = 16
"""Kernels that are alike, from which on one takes their place."""
MOST_OFFSETS = 8
"""Offsets that a launch binds: each takes a register of the loops."""
_ANY = dim(Symbol("offset"))

Bound = Mapping[int, tuple[int, tuple[Dim, ...]]]
"""For the number of a kernel that of the one in its place, with the values of its offsets."""


def bind_offsets(program: Program) -> None:
    """Changes the program, which is the caller's alone."""
    alike: dict[Kernel, list[int]] = {}
    if len(program.kernels) >= MANY:
        for number, kernel in enumerate(program.kernels):
            if isinstance(kernel, LoopKernel):
                alike.setdefault(_with_offsets(kernel, lambda _: _ANY), []).append(number)
    general: dict[int, tuple[Kernel, tuple[Dim, ...]]] = {}
    for numbers in alike.values():
        if len(numbers) >= MANY:
            general.update(_general({n: one for n in numbers if isinstance(one := program.kernels[n], LoopKernel)}))
    if not general:
        return
    kernels: dict[Kernel, int] = {}
    bound: dict[int, tuple[int, tuple[Dim, ...]]] = {}
    for number, kernel in enumerate(program.kernels):
        chosen, offsets = general.get(number, (kernel, ()))
        bound[number] = kernels.setdefault(chosen, len(kernels)), offsets
    program.kernels[:] = kernels
    for entry in program.entries:
        entry.steps = _steps(entry.steps, bound)


def _general(kernels: Mapping[int, LoopKernel]) -> dict[int, tuple[Kernel, tuple[Dim, ...]]]:
    """One kernel for all of these, which are alike but for offsets, and the values that each binds; nothing where the
    offsets are too many, or some are negative, which no size is."""
    columns = list(zip(*map(_constant_offsets, kernels.values()), strict=True))
    varying = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len(varying) > MOST_OFFSETS or any(value < 0 for column in varying for value in column):
        return {}
    kernel = next(iter(kernels.values()))
    first = symbol_count(kernel)
    symbols = {column: dim(Symbol(f"d{first + number}")) for number, column in enumerate(varying)}
    remaining = iter(columns)
    one = _with_offsets(kernel, lambda offset: symbols.get(next(remaining), offset))
    values = zip(*varying, strict=True)
    return {number: (one, tuple(map(dim, offsets))) for number, offsets in zip(kernels, values, strict=True)}


def _constant_offsets(kernel: LoopKernel) -> list[int]:
    offsets: list[int] = []

    def noted(offset: Dim) -> Dim:
        assert offset.constant is not None
        offsets.append(offset.constant)
        return offset

    _with_offsets(kernel, noted)
    return offsets


def _with_offsets(kernel: LoopKernel, chosen: Callable[[Dim], Dim]) -> LoopKernel:
    """The kernel with other constant offsets, but for loads under a mask, which says where the operand ends."""

    def index(old: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(
            Affine(one.terms, chosen(one.offset))
            if isinstance(one, Affine) and one.offset.constant is not None
            else one
            for one in old
        )

    def instruction(old: Instruction) -> Instruction:
        load = old.operation
        if not isinstance(load, Load) or load.mask is not None:
            return old
        return replace(old, operation=Load(load.operand, index(load.index)))

    stages = tuple(
        replace(
            stage,
            body=tuple(map(instruction, stage.body)),
            stores=tuple(replace(store, index=index(store.index)) for store in stage.stores),
        )
        for stage in kernel.stages
    )
    return replace(kernel, stages=stages)


def _steps(steps: Sequence[Step], bound: Bound) -> tuple[Step, ...]:
    """It recurses into regions only, whose nesting the front end bounds."""
    return tuple(_step(step, bound) for step in steps)


def _step(step: Step, bound: Bound) -> Step:
    match step:
        case Launch():
            number, offsets = bound[step.kernel]
            return replace(step, kernel=number, sizes=(*step.sizes, *offsets))
        case If():
            return replace(step, then=_steps(step.then, bound), otherwise=_steps(step.otherwise, bound))
        case While():
            return replace(step, condition=_steps(step.condition, bound), body=_steps(step.body, bound))
        case For() | Locked():
            return replace(step, body=_steps(step.body, bound))
        case Parallel():
            return replace(step, branches=tuple(_steps(branch, bound) for branch in step.branches))
        case _:
            return step
