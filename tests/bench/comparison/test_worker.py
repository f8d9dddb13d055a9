"""What a worker measures, and what the driver hears of a worker that is absent, fails or ends."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.comparison.contestant import Contestant
from bench.comparison.environments import pins
from bench.comparison.worker import measure


class Clock:
    """Goes on by itself only when a call takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_long_calls_are_timed_one_by_one_until_the_slice_is_over() -> None:
    clock = Clock()

    def call() -> None:
        clock.now += 0.3

    assert [round(x) for x in measure(call, 1.0, clock)] == [300_000] * 4


def test_short_calls_are_timed_in_groups() -> None:
    clock, calls = Clock(), [0]

    def call() -> None:
        calls[0] += 1
        clock.now += 1e-6

    times = measure(call, 1e-4, clock)
    assert all(abs(x - 1) < 1e-6 for x in times)
    assert calls[0] >= 10 * len(times), "a group is as long as 20 microseconds"


def contestant(module: str, case: str, folder: Path) -> Contestant:
    options = {"small": True, "isa": None, "results": str(folder / "results.npz")}
    return Contestant(sys.executable, (module, "numpy", case), options, {}, patience=120)


def test_a_contestant_prepares_measures_and_ends(tmp_path: Path) -> None:
    numpy = contestant("bench.peers.numpy_peer", "softmax", tmp_path)
    try:
        assert numpy.is_ready, numpy.reason
        numpy.pause()
        numpy.resume()
        assert min(numpy.measure(0.001)) > 0
        assert numpy.megabytes() is not None
        assert (tmp_path / "results.npz").exists()
    finally:
        numpy.close()


def test_a_system_that_is_not_installed_is_absent_with_the_reason(tmp_path: Path) -> None:
    nobody = contestant("bench.peers.nobody", "softmax", tmp_path)
    nobody.close()
    assert not nobody.is_ready
    assert "bench.peers.nobody" in nobody.reason


def test_a_case_that_a_system_cannot_say_is_absent(tmp_path: Path) -> None:
    numpy = contestant("bench.peers.numpy_peer", "gpt_2_train", tmp_path)
    numpy.close()
    assert numpy.reason == "the system has no way to say this case"


def test_pins_are_those_of_the_extra(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\n[project.optional-dependencies]\nbench = ["one>=1,<2", "two==3"]\n')
    assert pins(("two", "one", "three"), project) == ["two==3", "one>=1,<2", "three"]
