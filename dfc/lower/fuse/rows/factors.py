"""Factors of products that the step behind them applies: of scores, before a softmax.

    scores = (q k) * c; max scores; exp(scores - max)    ->    scores = q k; max (scores * c); exp(scores * c - max)

A product that is only summed needs no further pass over a block of it; loops that read each element anyway multiply
meanwhile. Assumes steps in the order of the run. Guarantees the same bits: each use has the same product of the same
two numbers, which memory holds as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.body import Accumulated, Affine, Apply, Instruction, Load
from dfc.kernels.form import ContractKernel, LoopKernel, Operand, RowStep, Stage

_MOST_STAGES = 2
"""Stages that multiply, at most: each does so anew."""


def with_factors_behind(steps: Sequence[RowStep], bound: int) -> tuple[RowStep, ...]:
    """The steps, with factors of products moved to loops that alone read them. Operands behind the first `bound` are
    panels, which nothing else reads."""
    moved = list(steps)
    for number, (product, loop) in enumerate(pairwise(steps)):
        factor = _factor(product)
        uses = 0 if factor is None else sum(one.operands.count(factor.product) for one in steps)
        is_apart = factor is None or factor.product < bound or uses > 2
        scaled = None if factor is None or is_apart else _scaled(loop, factor)
        if factor is not None and scaled is not None:
            moved[number : number + 2] = [factor.without, scaled]
    return tuple(moved)


@dataclass(frozen=True, slots=True)
class _Factor:
    """A factor: what it is, its number and that of the product among the operands of the whole, the step without it."""

    operand: Operand
    number: int
    product: int
    without: RowStep


def _factor(step: RowStep) -> _Factor | None:
    """The one number by which all of a product is multiplied, if that is all that happens to it."""
    kernel = step.kernel
    if not isinstance(kernel, ContractKernel) or step.sums_over_rows or len(kernel.epilogue) != 3:
        return None
    if len(kernel.stores) != 1 or kernel.stores[0].value != 2 or kernel.stores[0].combine:
        return None
    (store,), (total, load, result) = kernel.stores, kernel.epilogue
    if total != Instruction(Accumulated(), (), kernel.accumulator) or result.arguments != (0, 1):
        return None
    if not isinstance(load.operation, Load) or load.operation.index or load.operation.mask is not None:
        return None
    stored = {kernel.operands[store.operand].dtype, result.dtype, load.dtype}
    if result.operation != Apply("mul") or stored != {kernel.accumulator}:
        return None
    slot = load.operation.operand
    without = _without(kernel, slot)
    rest = tuple(number for own, number in enumerate(step.operands) if own != slot)
    return _Factor(
        kernel.operands[slot],
        step.operands[slot],
        step.operands[store.operand],
        replace(step, kernel=without, operands=rest),
    )


def _without(kernel: ContractKernel, slot: int) -> ContractKernel:
    """The product alone, and no slot for the factor."""

    def lower(operand: int) -> int:
        return operand - (operand > slot)

    (store,) = kernel.stores
    return replace(
        kernel,
        operands=tuple(one for own, one in enumerate(kernel.operands) if own != slot),
        a=replace(kernel.a, operand=lower(kernel.a.operand)),
        b=replace(kernel.b, operand=lower(kernel.b.operand)),
        epilogue=kernel.epilogue[:1],
        stores=(replace(store, operand=lower(store.operand), value=0),),
    )


def _scaled(step: RowStep, factor: _Factor) -> RowStep | None:
    """Loops with the factor, if they read nothing but elements of the product, and not too often."""
    kernel = step.kernel
    if not isinstance(kernel, LoopKernel) or kernel.ordered or factor.product not in step.operands:
        return None
    slot, extra = step.operands.index(factor.product), len(kernel.operands)
    stages = [_scaled_stage(stage, slot, extra) for stage in kernel.stages]
    reading = sum(stage != scaled for stage, scaled in zip(kernel.stages, stages, strict=True))
    if kernel.operands[slot].access != "read" or reading > _MOST_STAGES:
        return None
    whole = tuple(stage for stage in stages if stage is not None)
    if len(whole) < len(stages):
        return None
    operands = (*kernel.operands, replace(factor.operand, access="read"))
    changed = replace(kernel, operands=operands, stages=whole)
    return replace(step, kernel=changed, operands=(*step.operands, factor.number))


def _scaled_stage(stage: Stage, slot: int, factor: int) -> Stage | None:
    """A stage that multiplies what it loads of an operand; none where an index is computed, or a load is masked."""
    if not all(isinstance(index, Affine) for index in _indices(stage)):
        return None
    body: list[Instruction] = []
    positions: list[int] = []
    for one in stage.body:
        if isinstance(one.operation, Load) and one.operation.mask is not None:
            return None
        body.append(replace(one, arguments=tuple(positions[argument] for argument in one.arguments)))
        if isinstance(one.operation, Load) and one.operation.operand == slot:
            body.append(Instruction(Load(factor, ()), (), one.dtype))
            body.append(Instruction(Apply("mul"), (len(body) - 2, len(body) - 1), one.dtype))
        positions.append(len(body) - 1)
    reductions = tuple(replace(one, value=positions[one.value]) for one in stage.reductions)
    stores = tuple(replace(one, value=positions[one.value]) for one in stage.stores)
    return replace(stage, body=tuple(body), reductions=reductions, stores=stores)


def _indices(stage: Stage) -> Iterator[object]:
    for one in stage.body:
        if isinstance(one.operation, Load):
            yield from one.operation.index
    for store in stage.stores:
        yield from store.index
