"""A few of the kills of `python -m tests.gate.kills_alone`, and that a run made over again would be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc_runtime.checkpoints import store
from tests.gate import kills_alone

pytestmark = pytest.mark.timeout(600)


def test_killed_at_random_moments_it_ends_with_the_same_bits() -> None:
    seed = 2026  # the gate takes a new one each time
    assert kills_alone.attack(2, seed) == [], f"seed {seed}"


def test_killed_after_the_last_save_it_was_done_before(tmp_path: Path) -> None:
    folder = kills_alone.prepared(tmp_path)
    kills, late, fault = kills_alone.fault_of_job(folder, "saved", None, [None])
    assert (kills, late, fault) == (1, 1, "")
    steps = store.find(folder / "saved").checkpoint.state["steps"].array
    assert steps == kills_alone.STEPS
