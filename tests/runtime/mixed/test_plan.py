"""Plans of programs on several devices: what does not fit together is refused when it is read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dfc_runtime.mixed.looking import in_words
from dfc_runtime.mixed.plan import read_plan

GOOD: dict[str, Any] = {
    "devices": [
        {"kind": "gpu", "number": 1, "offset": 0, "size": 60, "faults": 0, "sites": [-1, -1]},
        {"kind": "cpu", "number": 0, "offset": 60, "size": 40, "faults": 2, "sites": [-1, 0]},
    ],
    "entries": [
        {
            "arguments": 2,
            "results": 1,
            "dims": 1,
            "measured": 0,
            "parts": [
                {"device": 0, "entry": 0, "arguments": [1], "results": [0], "measured": []},
                {"device": 1, "entry": 0, "arguments": [0, 1], "results": [], "measured": []},
            ],
        }
    ],
}


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = read_plan(GOOD, 100)
    assert [device.name for device in plan.devices] == ["@gpu1:0", "@cpu0:0"]
    assert plan.devices[1].sites == (-1, 0) and plan.devices[1].faults == 2
    (entry,) = plan.entries
    assert [part.arguments for part in entry.parts] == [(1,), (0, 1)]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("devices", 0, "kind"), "tpu", "unknown kind tpu"),
        (("devices", 1, "size"), 41, "size is not a whole number from 0 to 40"),
        (("devices", 0, "offset"), -1, "offset"),
        (("devices", 0, "sites"), [-2], "sites"),
        (("devices", 1), {**GOOD["devices"][0]}, "twice"),
        (("entries", 0, "parts", 0, "device"), 2, "device is not a whole number from 0 to 1"),
        (("entries", 0, "parts", 1, "device"), 0, "two parts on one device"),
        (("entries", 0, "parts", 0, "arguments"), [2], "arguments"),
        (("entries", 0, "parts", 0, "results"), [1], "results"),
        (("entries", 0, "parts", 0, "measured"), [0], "measured"),
        (("entries", 0, "more"), 1, "unknown key more"),
    ],
)
def test_what_points_outside_is_refused(path: tuple[Any, ...], value: object, said: str) -> None:
    damaged = copy.deepcopy(GOOD)
    place: Any = damaged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=said):
        read_plan(damaged, 100)


def test_devices_are_told_as_people_write_them() -> None:
    assert [in_words(name) for name in ("@gpu0:0", "@gpu12:0", "@cpu0:0")] == ["gpu 0", "gpu 12", "cpu"]
