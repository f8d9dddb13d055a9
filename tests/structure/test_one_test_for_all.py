"""One test goes through all cases, with its fixtures, and says of each that fails which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.one_test_for_all import one_test_for_all

TRIED: list[int] = []


@one_test_for_all([1, 2, 3])
def test_each_case_is_tried_with_the_fixtures(case: int, tmp_path: Path) -> None:
    assert tmp_path.is_dir()
    TRIED.append(case)


def test_they_were_tried_in_order_by_one_test() -> None:
    assert TRIED == [1, 2, 3]


def test_those_that_fail_are_named() -> None:
    tried: list[int] = []

    @one_test_for_all([1, 2, 3, 4])
    def check(case: int) -> None:
        tried.append(case)
        if case == 4:
            with pytest.raises(ValueError):
                pass
        assert case != 2

    with pytest.raises(AssertionError) as failed:
        check()
    told = str(failed.value)
    assert tried == [1, 2, 3, 4]
    assert told.startswith("2 of 4 cases fail\n") and "case 2:\n" in told and "case 4:\n" in told


def test_no_case_is_no_success() -> None:
    @one_test_for_all([])
    def check(case: int) -> None: ...

    with pytest.raises(AssertionError):
        check()
