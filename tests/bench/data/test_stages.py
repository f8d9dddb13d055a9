"""The bench of pipelines runs, and its figures are of the program it names."""

from __future__ import annotations

import pytest

from bench.data import stages


def test_a_division_has_times_and_the_warm_up_of_its_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "UNIT", 10)
    figures = stages.division(2, 3, steps=4, repeats=1)
    assert (figures["read"], figures["train"]) == (2, 3)
    assert 0 <= figures["warm_up"] <= 4  # type: ignore[operator]
    assert min(figures[name] for name in ("slower_stage_ms", "step_ms", "throughput_of_the_slower_stage")) >= 0  # type: ignore[type-var]


def test_both_stages_do_as_many_items() -> None:
    counts = {"read": 0, "train": 0}

    def counting(name: str):
        def item(_: float) -> None:
            counts[name] += 1

        return item

    assert stages.item_in_parallel((counting("read"), counting("train")), steps=5) > 0
    assert counts == {"read": 5, "train": 5}
