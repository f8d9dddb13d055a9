"""Which rows lie where: every row once, all tasks alike, and both directions of the rule agree."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.shards import Division, with_room, without_room

RULES = ("modulo", "blocks", "hash")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("rows", "tasks"), [(1, 1), (7, 3), (9, 3), (10, 4), (1000, 7), (5, 5)])
def test_every_row_lies_in_one_place(rule, rows, tasks):
    division = Division(rule, rows, tasks)
    found = [division.rows_of(task) for task in range(tasks)]
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    assert [len(each) for each in found] == [division.count(task) for task in range(tasks)]
    assert {len(each) for each in found} <= {division.most, division.most - 1}
    owners, local = division.locate(np.arange(rows))
    for task, each in enumerate(found):
        assert (owners[each] == task).all()
        assert local[each].tolist() == list(range(len(each)))


def test_a_hash_spreads_what_stands_in_steps():
    """Every fourth row would be in one of four tasks by modulo."""
    owners, _ = Division("hash", 40_000, 4).locate(np.arange(0, 40_000, 4))
    counts = np.bincount(owners, minlength=4)
    assert counts.min() > 2300
    assert Division("modulo", 40_000, 4).locate(np.arange(0, 40_000, 4))[0].max() == 0


def test_the_hash_is_the_one_that_is_documented():
    """Files with rows by this rule are read for ever: the numbers of splitmix64, worked out by hand with integers."""

    def mixed(group, tasks):
        x = (group + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return (x ^ (x >> 31)) % tasks

    rows = np.arange(500)
    owners, local = Division("hash", 500, 3).locate(rows)
    assert owners.tolist() == [(row + mixed(row // 3, 3)) % 3 for row in range(500)]
    assert local.tolist() == [row // 3 for row in range(500)]


def test_memory_has_room_for_the_most_rows():
    part = np.arange(6).reshape(2, 3)
    assert with_room(part, 0, 3).tolist() == [[0, 1, 2], [3, 4, 5], [3, 4, 5]]
    assert with_room(part, 1, 4).tolist() == [[0, 1, 2, 2], [3, 4, 5, 5]]
    assert without_room(with_room(part, 1, 4), 1, 3).tolist() == part.tolist()
