"""The keyed permutation: a bijection for every size, the stated bits, and orders as even as chance has them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfc_runtime.records.permutation import LARGEST, permutation

MASK = (1 << 64) - 1


def by_definition(count: int, seed: int, pass_: int, position: int) -> int:
    """The page of the definition (docs/FORMATS.md), line by line, apart from the module."""
    bits = next(b for b in range(1, 40) if 4**b >= count)
    words = [philox((pass_ & 0xFFFFFFFF, pass_ >> 32, j, 0x6D726570), seed) for j in range(7)]
    keys = [word for w in words[:6] for word in (w[0] | w[1] << 32, w[2] | w[3] << 32)]
    number = position
    while True:
        left, right = number >> bits, number % 2**bits
        for key in keys:
            left, right = right, left ^ mix(right + key & MASK) % 2**bits
        number = left << bits | right
        if number < count:
            break
    return 1 - number if number < 2 <= count and words[6][0] % 2 else number


def philox(counter: tuple[int, ...], seed: int) -> list[int]:
    state, k0, k1 = list(counter), seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = state[0] * 0xD2511F53, state[2] * 0xCD9E8D57
        state = [b >> 32 ^ state[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ state[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return state


def mix(number: int) -> int:
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def test_every_size_up_to_some_hundred_is_a_bijection() -> None:
    for count in [*range(130), *range(130, 400, 9)]:
        numbers = permutation(count, 5, count).many(np.arange(count))
        assert np.array_equal(np.sort(numbers), np.arange(count)), count


@pytest.mark.parametrize("count", [4**7 - 1, 4**7, 4**7 + 1, 100_003])
def test_larger_sizes_are_bijections(count: int) -> None:
    numbers = permutation(count, 2**40 + 3, 2**33).many(np.arange(count))
    assert np.array_equal(np.bincount(numbers, minlength=count), np.ones(count, int))


@given(st.integers(1, LARGEST), st.integers(0, MASK), st.integers(0, MASK), st.data())
def test_numbers_and_arrays_are_what_the_definition_says(
    count: int, seed: int, pass_: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, count - 1))
    order = permutation(count, seed, pass_)
    expected = by_definition(count, seed, pass_, position)
    assert order.one(position) == expected
    assert order.many(np.array([[position]])).tolist() == [[expected]]


def test_whole_orders_of_small_sizes_are_what_the_definition_says() -> None:
    for count in range(1, 9):
        for pass_ in range(4):
            order = permutation(count, 11, pass_)
            expected = [by_definition(count, 11, pass_, position) for position in range(count)]
            assert order.many(np.arange(count)).tolist() == expected == [order.one(p) for p in range(count)]


def test_kept_values() -> None:
    """These never change: streams of saved runs depend on them."""
    assert permutation(10, 0, 0).many(np.arange(10)).tolist() == KEPT[0]
    assert permutation(1_000_000, 3, 1).many(np.arange(5)).tolist() == KEPT[1]


KEPT = ([8, 5, 7, 4, 9, 6, 0, 3, 2, 1], [36874, 722433, 969983, 625508, 880525])


def test_small_sizes_and_positions_outside() -> None:
    assert len(permutation(0, 1, 1).many(np.zeros(0, np.int64))) == 0
    assert permutation(1, 1, 1).one(0) == 0
    assert {tuple(permutation(2, seed, 0).many(np.arange(2))) for seed in range(20)} == {(0, 1), (1, 0)}
    for position in (-1, 5):
        with pytest.raises(IndexError):
            permutation(5, 1, 1).one(position)
        with pytest.raises(IndexError):
            permutation(5, 1, 1).many(np.array([0, position]))
    for count in (-1, LARGEST + 1):
        with pytest.raises(ValueError):
            permutation(count, 1, 1)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_all_orders_are_as_likely(count: int) -> None:
    """Chi-square over seeds and passes: six deviations above its mean would come once in a hundred million."""
    samples = 1200
    orders = Counter(tuple(map(permutation(count, n % 97, n // 97).one, range(count))) for n in range(samples))
    expected = samples / math.factorial(count)
    chi_square = sum((orders[order] - expected) ** 2 for order in permutations(range(count))) / expected
    freedom = math.factorial(count) - 1
    assert chi_square < freedom + 6 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("count", [16, 50, 64])
def test_every_record_comes_everywhere_as_often(count: int) -> None:
    """Chi-square of (position, record) over passes, and of how far neighbours are apart."""
    passes = 600
    table, apart = np.zeros((count, count)), np.zeros(count)
    for pass_ in range(passes):
        order = permutation(count, 9, pass_).many(np.arange(count))
        table[np.arange(count), order] += 1
        apart += np.bincount((order[1:] - order[:-1]) % count, minlength=count)
    freedom = (count - 1) ** 2
    assert abs(((table - passes / count) ** 2).sum() * count / passes - freedom) < 6 * math.sqrt(2 * freedom)
    mean = passes / 1.0
    assert ((apart[1:] - mean) ** 2).sum() / mean < count - 2 + 6 * math.sqrt(2 * (count - 2))


def test_memory_does_not_grow_with_the_size() -> None:
    order = permutation(LARGEST, 1, 1)
    numbers = order.many(np.arange(1000))
    assert len(set(numbers.tolist())) == 1000 and numbers.max() < LARGEST and numbers.max() > LARGEST // 2
