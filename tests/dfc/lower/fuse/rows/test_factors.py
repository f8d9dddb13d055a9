"""Which factors of products the loops behind them apply."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dfc.kernels.body import Apply, Instruction
from dfc.kernels.form import ContractKernel, LoopKernel, RowStep
from dfc.lower.fuse.rows import joining
from dfc.lower.fuse.rows.factors import with_factors_behind
from tests.dfc.lower.fuse.rows.test_row_blocks import FORWARD, blocks, lowered


def multiplies(body: tuple[Instruction, ...]) -> bool:
    return any(one.operation == Apply("mul") for one in body)


def test_a_factor_of_scores_is_applied_where_softmax_reads_them() -> None:
    (kernel,) = blocks(lowered(FORWARD))
    product, softmax, _ = (step.kernel for step in kernel.steps)
    assert isinstance(product, ContractKernel) and len(product.epilogue) == 1 and len(product.operands) == 3
    assert isinstance(softmax, LoopKernel) and all(multiplies(stage.body) for stage in softmax.stages[:2])


def test_what_others_read_keeps_its_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[tuple[Sequence[RowStep], int]] = []

    def remember(steps: Sequence[RowStep], bound: int) -> tuple[RowStep, ...]:
        before.append((steps, bound))
        return tuple(steps)

    monkeypatch.setattr(joining, "with_factors_behind", remember)
    lowered(FORWARD)
    ((steps, bound),) = before
    assert with_factors_behind(steps, bound) != tuple(steps)
    in_memory = max(max(step.operands) for step in steps) + 1
    assert with_factors_behind(steps, in_memory) == tuple(steps)
    assert with_factors_behind([*steps, steps[1]], bound) == (*steps, steps[1])
