"""The attack of the gate on ranks, a little of it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.gate import kills_pipelines_ranks, kills_ranks

SEED = 1
pytestmark = [pytest.mark.timeout(300)]


def test_a_few_kills_and_signals_find_nothing() -> None:
    """With this seed it strikes when all is saved, which needs no long run."""
    assert kills_ranks.drawn(Random(SEED), 2).after is None
    assert kills_ranks.main(1, SEED, steps={2: 200, 3: 200}) == 0


def test_a_run_that_ends_with_0_too_early_is_a_finding(tmp_path: kills_ranks.Path) -> None:
    attack = kills_ranks.Attack("term rank 0", 0, 0.1)
    assert kills_ranks.finding(attack, 0, "", tmp_path, 10) == "0 after 0 of 10 steps"
    assert kills_ranks.finding(attack, 143, "", tmp_path, 10) == ""
    assert kills_ranks.finding(None, 143, "dfc: x", tmp_path, 10) == "code 143: dfc: x"


def test_another_batch_and_other_weights_are_findings() -> None:
    whole = {name: np.arange(4).tobytes() for name in kills_pipelines_ranks.COMPARED}
    batches = np.array([0, 1, 7, 3]).tobytes()
    assert kills_pipelines_ranks.difference(whole, whole) == ""
    assert kills_pipelines_ranks.difference({**whole, "w": b""}, whole) == "w has other bits"
    assert (
        kills_pipelines_ranks.difference({**whole, "batches": batches}, whole) == "the batch of step 2 is another one"
    )
