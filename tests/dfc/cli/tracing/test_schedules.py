"""What `dfc trace` says of the steps of a pipeline: the guide's table, the warm-up and the distance of steps."""

from __future__ import annotations

import pytest

from dfc.cli.tracing.schedules import Schedule, as_data, as_lines, schedules_of, warm_up_text

MILLISECOND = 1_000_000
QUEUES = ("a", "b", "c")


def schedule(waits: list[int], put: list[list[int]], last: list[int], gap: int = 10) -> Schedule:
    """Steps `gap` milliseconds apart, each half as long."""
    steps = [
        [number * gap * MILLISECOND, (number * gap + gap // 2) * MILLISECOND, waited, *counts]
        for number, (waited, counts) in enumerate(zip(waits, put, strict=True))
    ]
    (parsed,) = schedules_of({"steps": [{"entry": "train", "queues": list(QUEUES), "put": last, "steps": steps}]})
    return parsed


GUIDE = schedule([0] * 5, [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 2, 1], [4, 3, 2]], [5, 4, 3])
"""Step 1 makes A0; step 2 A1 and B0; step 3 A2, B1 and C0; and so on."""


def test_the_table_shows_which_element_a_stage_makes_in_which_step() -> None:
    lines = as_lines(GUIDE, top=10)
    assert lines[0].startswith("steps of `train`")
    assert lines[1].split() == ["step", "a", "b", "c", "waits", "takes"]
    cells = [line.split()[:4] for line in lines[2:8]]
    assert cells == [
        ["0", "-", "-", "-"],
        ["1", "0", "-", "-"],
        ["2", "1", "0", "-"],
        ["3", "2", "1", "0"],
        ["4", "3", "2", "1"],
        ["5", "4", "3", "2"],
    ]


def test_what_came_before_the_first_step_is_step_0_and_ranges_name_their_ends() -> None:
    parsed = schedule([1, 0], [[6, 2, 1], [6, 4, 2]], [9, 4, 3])
    assert [line.split()[:4] for line in as_lines(parsed, 5)[2:5]] == [
        ["0", "0..5", "0..1", "0"],
        ["1", "-", "2..3", "1"],
        ["2", "6..8", "-", "2"],
    ]


def test_of_many_steps_the_first_and_the_last_are_shown() -> None:
    parsed = schedule([0] * 9, [[k, k, k] for k in range(9)], [9, 9, 9])
    assert [line.split()[0] for line in as_lines(parsed, 2)[2:9]] == ["0", "1", "2", "...", "7", "8", "9"]
    assert [line.split()[0] for line in as_lines(parsed, 6)[2:12]] == [str(k) for k in range(10)]


def counted(waits: list[int]) -> Schedule:
    return schedule(waits, [[k, k, k] for k in range(len(waits))], [9, 9, 9])


@pytest.mark.parametrize(
    ("waits", "sentence"),
    [
        ([2, 1, 0, 0], "2 of 4 steps of `train`; none of the later ones waited; steps begin 10 ms apart (median)"),
        ([0, 0, 0, 0], "no step of `train` waited for an element; steps begin 10 ms apart (median)"),
        (
            [1, 0, 0, 1],
            "never over, 2 of 4 steps of `train` waited, the last among them; steps begin 10 ms apart (median)",
        ),
        ([1, 0], "1 of 2 steps of `train`; none of the later ones waited"),
    ],
)
def test_the_warm_up_ends_behind_the_last_step_that_waited(waits: list[int], sentence: str) -> None:
    assert warm_up_text(counted(waits)) == f"warm-up: {sentence}"


def test_json_has_all_steps() -> None:
    data = as_data(GUIDE)
    assert (data["entry"], data["queues"], data["warm_up"], data["interval"]) == ("train", list(QUEUES), 0, 0.01)
    steps = data["steps"]
    assert isinstance(steps, list)
    assert steps[3] == {
        "step": 3,
        "begin": 0.02,
        "seconds": 0.005,
        "waits": 0,
        "came": {"a": [2, 3], "b": [1, 2], "c": [0, 1]},
    }


def test_a_trace_without_steps_has_no_schedule() -> None:
    assert schedules_of({}) == []
    (parsed,) = schedules_of({"steps": [{"entry": "train", "queues": ["a"], "put": [3], "steps": []}]})
    assert parsed.steps == []


@pytest.mark.parametrize("row", [[0, 1, 2], [0, 1, 2, -1], [0, 1, 2, True], [0, 1, 2, "3"], [0, 1, 2, 3, 4]])
def test_malformed_steps_are_refused(row: list[object]) -> None:
    with pytest.raises(ValueError, match="step"):
        schedules_of({"steps": [{"entry": "train", "queues": ["a"], "put": [3], "steps": [row]}]})
