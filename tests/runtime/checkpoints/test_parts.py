"""Parts of several tasks, put together: what comes out is whole, or an error."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.checkpoints.parts import Assembly, Part, Saved
from dfc_runtime.distributed.shards import rows_of

WHOLE = np.arange(5, dtype=np.float32)


def added(assembly: Assembly, part: Part) -> None:
    rows = WHOLE[rows_of(part.rule, 5, part.tasks, part.task)]
    assembly.add({"w": Saved("w", "f32", rows.shape, rows)}, {"w": part})


@pytest.mark.parametrize("rule", ["modulo", "blocks", "hash"])
def test_parts_come_together(rule: str) -> None:
    assembly = Assembly({"w": ("f32", (5,))}, 3)
    for task in (1, 0):
        added(assembly, Part(rule, 0, 2, task))
    np.testing.assert_array_equal(assembly.finished()["w"].array, WHOLE)


@pytest.mark.parametrize("other", [Part("blocks", 0, 2, 1), Part("modulo", 0, 3, 1)])
def test_parts_by_two_rules_do_not(other: Part) -> None:
    """They would leave rows that nobody has written."""
    assembly = Assembly({"w": ("f32", (5,))}, 3)
    added(assembly, Part("modulo", 0, 2, 0))
    with pytest.raises(ValueError, match="w is spread in two ways"):
        added(assembly, other)


def test_a_part_that_is_missing_or_there_twice_is_told() -> None:
    assembly = Assembly({"w": ("f32", (5,))}, 3)
    added(assembly, Part("modulo", 0, 2, 0))
    with pytest.raises(ValueError, match="w is not whole in its files"):
        assembly.finished()
    with pytest.raises(ValueError, match="a part of w is there twice"):
        added(assembly, Part("modulo", 0, 2, 0))


@pytest.mark.parametrize("rule", ["modulo", "blocks", "hash"])
def test_rows_that_a_manifest_claims_are_counted_before_they_are_listed(rule: str) -> None:
    """There is no memory for the numbers of these rows."""
    part = Part(rule, 0, 2, 0)
    few = Assembly({"w": ("f32", (10**15, 4))}, 2)
    with pytest.raises(ValueError, match="a part of w is not of the type the manifest states"):
        few.add({"w": Saved("w", "f32", (1, 4), np.zeros((1, 4), np.float32))}, {"w": part})
    none = Assembly({"w": ("f32", (10**15, 0))}, 2)
    with pytest.raises(ValueError, match="w has 500000000000000 rows of nothing"):
        none.add({"w": Saved("w", "f32", (10**15 // 2, 0), np.zeros((10**15 // 2, 0), np.float32))}, {"w": part})


def test_there_are_no_more_parts_than_files() -> None:
    assembly = Assembly({"w": ("f32", (5,))}, 1)
    with pytest.raises(ValueError, match="w is in parts that cannot be"):
        added(assembly, Part("modulo", 0, 2, 0))
