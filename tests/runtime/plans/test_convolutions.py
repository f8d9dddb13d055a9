"""The part of a plan that is about convolutions: what is read, and what damage is told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dfc_runtime.plans.convolutions import SUMS, read_convolution

TYPES = ("f32", "f32", "f32", "f32", "f16")


def tensor(*extents: object) -> dict[str, Any]:
    return {"offset": 0, "extents": list(extents), "strides": [1] * len(extents)}


def convolution() -> dict[str, Any]:
    """A convolution of two places with a bias."""
    return {
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
    }


def test_what_a_launch_says_is_read() -> None:
    one = read_convolution(convolution(), "plan", TYPES, {"B"}, 3)
    assert (one.kind, one.steps, one.bias is not None, one.makes_sums) == ("forward", (1, 2), True, False)
    assert len(one.tensors) == 4 and one.tensors[3].extents[0].constant == 4


def test_sums_stand_for_what_is_made() -> None:
    data = convolution()
    del data["bias"]
    data["operands"] = [0, 1, SUMS]
    with pytest.raises(ValueError, match="makes sums that nothing goes on with"):
        read_convolution(data, "plan", TYPES, {"B"}, 3)
    data["finish"] = {"kernel": 2, "operands": [SUMS, 1], "sizes": [["$d0"]]}
    assert read_convolution(data, "plan", TYPES, {"B"}, 3).makes_sums


def change(*keys: str, to: object) -> Callable[[dict[str, Any]], None]:
    def made(data: dict[str, Any]) -> None:
        inner: Any = data
        for one in keys[:-1]:
            inner = inner[one]
        inner[keys[-1]] = to

    return made


DAMAGE = {
    "which no library makes": change("kind", to="sideways"),
    "in i32": change("type", to="i32"),
    "or unknown ones": change("operands", to=[0, 1, 5, 3]),
    "operands for 4 tensors": change("operands", to=[0, 1, 2]),
    "not of the type f32": change("operands", to=[0, 4, 2, 3]),
    "an operand that is": change("operands", to=[0, SUMS, 2, 3]),
    "adds what no library adds": change("kind", to="data"),
    "3 extents and 3 strides, not 4": change("filter", to=tensor(4, 2, 3)),
    "has 0 places": change("steps", to=[]),
    "number from 1": change("steps", to=[0, 1]),
    "and other places": change("low", to=[0]),
    "the unknown size C": change("image", to=tensor(["$C"], 2, 8, 8)),
    "an unknown key": change("more", to=1),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_damage_is_told_in_one_line(said: str) -> None:
    data = convolution()
    DAMAGE[said](data)
    with pytest.raises(ValueError) as told:
        read_convolution(data, "plan.entries[0].steps[2]", TYPES, {"B"}, 3)
    assert said in str(told.value) and "\n" not in str(told.value)
