"""Whose turn it is: bounds that hold in any order, and steps of the first few."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dfc_runtime.distributed.calls.asynchronous.turns import FirstFew, OwnPace, is_possible


@pytest.mark.parametrize("bound", [-1, 0, 1, 3])
def test_nobody_is_further_ahead_than_the_bound_and_all_steps_are_taken(bound: int) -> None:
    furthest = 0
    for seed in range(50):
        draw, steps = Random(seed), [6, 4, 9]
        turns, done = OwnPace(steps, bound), [0] * 3
        favourite = draw.randrange(3)
        while not turns.is_over:
            task = favourite if favourite in turns.busy and draw.random() < 0.8 else draw.choice(sorted(turns.busy))
            for each in turns.arrived(task).updates:
                done[each] += 1
            working = [done[each] for each in range(3) if done[each] < steps[each]]
            for each in turns.busy:
                assert turns.step(each) == done[each]
                furthest = max(furthest, done[each] - min(working))
        assert done == steps
        assert turns.version == sum(steps) == turns.staleness.total()
    assert furthest == bound if bound >= 0 else furthest > 3


def test_staleness_counts_updates_between_a_read_and_its_own() -> None:
    turns = OwnPace([1, 2], -1)
    for task in (0, 1, 1, 1, 0):
        turns.arrived(task)
    assert turns.staleness == Counter({0: 2, 2: 1})


def test_the_first_few_of_a_step_are_an_update_and_later_ones_are_dropped() -> None:
    turns = FirstFew(3, 2, 2)
    assert [turns.arrived(task).answers for task in (0, 1, 2)] == [[0], [1], [2]]
    assert turns.arrived(2).updates == ()
    first = turns.arrived(0)
    assert (first.updates, first.answers, turns.version) == ([0, 2], [0, 2], 1)
    late = turns.arrived(1)
    assert (late.updates, late.answers, late.is_late, turns.step(1)) == ((), [1], True, 1)
    assert turns.arrived(1).updates == ()
    assert turns.arrived(2).updates == [1, 2]
    assert turns.busy == {0}
    assert turns.arrived(0).is_late
    assert turns.is_over


def test_an_order_that_cannot_be_is_seen_before_it_is_run() -> None:
    assert is_possible(OwnPace([2, 2], -1), [0, 0, 0, 1, 1, 1])
    assert not is_possible(OwnPace([2, 2], 0), [0, 0, 0, 1, 1, 1])  # the first is not let so far ahead
    assert is_possible(OwnPace([2, 2], 0), [0, 0, 1, 1, 0, 1])
    assert not is_possible(OwnPace([2, 2], -1), [0, 0, 0, 1, 1])  # one step is left
    assert not is_possible(OwnPace([2, 2], -1), [0, 0, 0, 2])
