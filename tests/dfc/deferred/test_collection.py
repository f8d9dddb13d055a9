"""Collection is off inside, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from dfc.deferred.collection import uncollected


def test_nothing_is_collected_inside_and_all_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_inside_turns_it_on_again() -> None:
    with pytest.raises(KeyError), uncollected():
        raise KeyError("x")
    assert gc.isenabled()
