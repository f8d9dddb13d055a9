"""A few of the kills of `python -m tests.gate.kills_pipelines`."""

from __future__ import annotations

import pytest

from tests.gate import kills_alone, kills_pipelines

pytestmark = pytest.mark.timeout(600)


def test_killed_with_runners_at_work_it_ends_with_the_same_weights() -> None:
    seed = 2026  # the gate takes a new one each time
    assert kills_alone.attack(1, seed, kills_pipelines.JOB) == [], f"seed {seed}"
