"""Results of two systems are the same within the bound of a case, or the difference is said."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bench.comparison.results import compare, load_results

ONES = np.ones((2, 3), np.float32)


def test_equal_results_agree() -> None:
    agreement = compare([ONES, np.array(2.0)], [ONES.copy(), np.array([2.0])], 1e-6)
    assert (agreement.agrees, agreement.error) == (True, 0.0)


def test_the_error_is_relative_to_the_largest_element_of_its_array() -> None:
    big, small = np.array([1000.0, 1.0]), np.array([0.5])
    agreement = compare([big, small], [np.array([1000.0, 1.5]), small], 1e-3)
    assert agreement.agrees
    assert agreement.error == pytest.approx(5e-4)
    assert not compare([small, big], [small + 0.001, big], 1e-3).agrees


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ([ONES, ONES], "2 results instead of 1"),
        ([ONES.T], r"result 0 is \[3, 2\] instead of \[2, 3\]"),
        ([ONES * np.nan], "result 0 is not finite"),
        ([ONES * 1.5], "off by 5.0e-01"),
    ],
)
def test_what_does_not_agree_says_why(theirs: list[np.ndarray], reason: str) -> None:
    agreement = compare([ONES], theirs, 1e-3)
    assert not agreement.agrees
    assert re.fullmatch(reason, agreement.reason)


def test_nothing_but_zeros_proves_nothing() -> None:
    agreement = compare([ONES * 0], [ONES * 0], 1e-3)
    assert (agreement.agrees, agreement.reason) == (False, "result 0 is zero all over")


def test_results_are_read_in_their_order(tmp_path: Path) -> None:
    arrays = [np.full(2, number) for number in range(12)]
    np.savez(tmp_path / "results.npz", *arrays)
    assert [int(array[0]) for array in load_results(tmp_path / "results.npz")] == list(range(12))
