"""Philox for numbers is Philox for arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dfc_runtime.philox import philox, philox_words

WORD = st.integers(0, 0xFFFFFFFF)


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_numbers_and_arrays_have_the_same_words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> None:
    arrays = philox([np.array([word], np.uint64) for word in counter], key)
    assert tuple(int(word[0]) for word in arrays) == philox_words(counter, key)


def test_a_published_vector() -> None:
    expected = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox_words((0, 0, 0, 0), (0, 0)) == expected
