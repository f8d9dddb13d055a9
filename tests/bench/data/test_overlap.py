"""The bench of what pipelines hide runs, and both of its steps with images compute the same."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench.data import overlap


def test_pipelines_of_each_kind_have_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MILLISECOND", 10)
    monkeypatch.setattr(overlap, "UNIT", 0.1)
    monkeypatch.setattr(overlap, "WAIT", 0.1)
    stages = overlap.three_stages((4, 2, 2), steps=3, repeats=1)
    figures = {**stages, **overlap.iterations(steps=3, repeats=1)}
    numbers = [value for name, value in figures.items() if name != "wait, prepare, train"]
    assert len(numbers) == 6
    assert all(value > 0 for value in numbers)  # type: ignore[operator]


def test_an_image_that_is_staged_is_the_one_that_the_step_would_have_made() -> None:
    code = overlap.bundle(overlap.STAGING, TRAIN=1)
    with closing(overlap.loaded(code, overlap.Medium(0))) as model:
        assert model.late() == model.explicit()  # the first 64 images of both
