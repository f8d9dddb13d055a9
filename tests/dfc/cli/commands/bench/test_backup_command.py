"""`dfc bench backup`: what is measured, and the figure that is made of it."""

from __future__ import annotations

import json

import pytest

from dfc.cli.stragglers import Measured
from tests.support.command_line import Command


def test_the_speed_up_is_what_backups_gain_by_what_they_cost() -> None:
    without, with_two = Measured(8, 0, 0.05, 0), Measured(8, 2, 0.02, 11)
    assert without.gain(without) == 1
    assert with_two.gain(without) == pytest.approx(0.05 / 0.02 * 8 / 10)


def test_gradients_that_come_late_are_dropped_and_counted(dfc: Command) -> None:
    asked = ("--tasks=2", "--backups=1", "--steps=3", "--usual=0", "--slow=0.05", "--chance=0.4", "--json")
    ended = dfc("bench", "backup", *asked)
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)
    assert [row["backups"] for row in measured["rows"]] == [0, 1]
    assert measured["rows"][0]["dropped"] == 0
    assert 1 <= measured["rows"][1]["dropped"] <= 3  # who is late in one step may miss the next one


@pytest.mark.parametrize("asked", ["--usual=nan", "--slow=inf", "--slow=-1", "--chance=nan"])
def test_delays_that_are_no_numbers_are_refused(dfc: Command, asked: str) -> None:
    ended = dfc("bench", "backup", asked)
    assert ended.code == 2
    assert "is not in the range 0<=x<=" in ended.message
