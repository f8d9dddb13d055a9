"""The part of a plan that is about convolutions: what is read, and what damage is told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dfc_driver_cuda.plan_convolutions import SUMS, read_notes

TYPES = ("f32", "f32", "f32", "f32", "f16")


def tensor(*extents: object) -> dict[str, Any]:
    return {"offset": 0, "extents": list(extents), "strides": [1] * len(extents)}


def notes() -> dict[str, Any]:
    """A convolution of two places with a bias."""
    return {
        "number": 3,
        "only_for": [5, 7],
        "convolution": {
            "kind": "forward",
            "type": "f32",
            "rounds": False,
            "operands": [0, 1, 2, 3],
            "image": tensor(["$B"], 2, 8, 8),
            "filter": tensor(4, 2, 3, 3),
            "result": tensor(["$B"], 4, 6, 6),
            "bias": tensor(4),
            "steps": [1, 2],
            "dilations": [1, 1],
            "low": [0, 0],
        },
    }


def test_what_a_launch_says_is_read() -> None:
    found = read_notes(notes(), "plan", TYPES, {"B"}, 3)
    assert (found.number, found.only_for) == (3, (5, 7))
    one = found.convolution
    assert one is not None and (one.kind, one.steps, one.has_bias, one.makes_sums) == ("forward", (1, 2), True, False)
    assert len(one.tensors) == 4 and one.tensors[3].extents[0].constant == 4


def test_sums_stand_for_what_is_made() -> None:
    data = notes()
    del data["convolution"]["bias"]
    data["convolution"]["operands"] = [0, 1, SUMS]
    with pytest.raises(ValueError, match="makes sums that nothing goes on with"):
        read_notes(data, "plan", TYPES, {"B"}, 3)
    data["convolution"]["finish"] = {"kernel": 2, "operands": [SUMS, 1], "sizes": [["$d0"]]}
    found = read_notes(data, "plan", TYPES, {"B"}, 3).convolution
    assert found is not None and found.makes_sums


def test_a_launch_may_only_be_there_for_others() -> None:
    data = notes()
    del data["convolution"]
    assert read_notes(data, "plan", TYPES, set(), 3).convolution is None


def change(*keys: str, to: object) -> Callable[[dict[str, Any]], None]:
    def made(data: dict[str, Any]) -> None:
        inner: Any = data
        for one in keys[:-1]:
            inner = inner[one]
        inner[keys[-1]] = to

    return made


DAMAGE = {
    "is there for launches before it": change("only_for", to=[3]),
    "which no library makes": change("convolution", "kind", to="sideways"),
    "in i32": change("convolution", "type", to="i32"),
    "not a whole number from -1 to 4": change("convolution", "operands", to=[0, 1, 5, 3]),
    "operands for 4 tensors": change("convolution", "operands", to=[0, 1, 2]),
    "not of the type f32": change("convolution", "operands", to=[0, 4, 2, 3]),
    "an operand that is": change("convolution", "operands", to=[0, SUMS, 2, 3]),
    "adds what no library adds": change("convolution", "kind", to="data"),
    "3 extents and 3 strides, not 4": change("convolution", "filter", to=tensor(4, 2, 3)),
    "has 0 places": change("convolution", "steps", to=[]),
    "number from 1": change("convolution", "steps", to=[0, 1]),
    "and other places": change("convolution", "low", to=[0]),
    "the unknown size C": change("convolution", "image", to=tensor(["$C"], 2, 8, 8)),
    "an unknown key": change("convolution", "more", to=1),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_damage_is_told_in_one_line(said: str) -> None:
    data = notes()
    DAMAGE[said](data)
    with pytest.raises(ValueError) as told:
        read_notes(data, "plan.entries[0].steps[2]", TYPES, {"B"}, 3)
    assert said in str(told.value) and "\n" not in str(told.value)
