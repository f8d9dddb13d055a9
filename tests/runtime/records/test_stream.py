"""The order of a stream: everything once a pass, whoever takes part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfc_runtime.records.permutation import permutation
from dfc_runtime.records.stream import RecordStream, Shuffled, share, share_of_names

COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any).map(tuple)
SHUFFLED = st.sampled_from(["records", "files", ""])


@given(COUNTS, SHUFFLED, st.integers(0, 5))
def test_a_pass_has_every_record_once(counts: tuple[int, ...], shuffled: Shuffled, pass_: int) -> None:
    stream = RecordStream(counts, shuffled, seed=4)
    numbers = stream.numbers(pass_, np.arange(stream.count))
    assert sorted(numbers.tolist()) == list(range(sum(counts)))


@given(COUNTS, SHUFFLED, st.integers(1, 7), st.integers(0, 30), st.integers(0, 60))
def test_ranks_share_out_any_part_of_the_stream(
    counts: tuple[int, ...], shuffled: Shuffled, ranks: int, begin: int, size: int
) -> None:
    stream = RecordStream(counts, shuffled, seed=4)
    whole = stream.elements(np.arange(begin, begin + size))
    shares = [share(rank, ranks, begin, begin + size) for rank in range(ranks)]
    assert sorted(np.concatenate(shares).tolist()) == list(range(begin, begin + size))
    for rank, elements in enumerate(shares):
        assert (elements % ranks == rank).all()
        assert stream.elements(elements).tolist() == whole[elements - begin].tolist()


def test_another_number_of_ranks_goes_on_where_the_first_one_stopped() -> None:
    stream = RecordStream((5, 8), "records", seed=1)
    taken = [number for rank in range(3) for number in stream.elements(share(rank, 3, 0, 7)).tolist()]
    taken += [number for rank in range(2) for number in stream.elements(share(rank, 2, 7, 13)).tolist()]
    assert sorted(taken) == list(range(13))


def test_records_are_shuffled_by_the_permutation() -> None:
    positions = np.arange(13)
    stream = RecordStream((5, 8), "records", seed=6)
    assert stream.numbers(2, positions).tolist() == permutation(13, 6, 2).many(positions).tolist()
    assert stream.numbers(2, positions).tolist() != stream.numbers(3, positions).tolist()
    assert RecordStream((5, 8)).numbers(2, positions).tolist() == positions.tolist()


def test_files_are_shuffled_and_their_records_stay_in_order() -> None:
    counts = (3, 0, 2, 4)
    first = [0, 3, 3, 5]
    order = permutation(4, 6, 1).many(np.arange(4)).tolist()
    expected = [first[file] + record for file in order for record in range(counts[file])]
    assert RecordStream(counts, "files", seed=6).numbers(1, np.arange(9)).tolist() == expected


def test_elements_count_through_passes() -> None:
    stream = RecordStream((3, 2), "records", seed=8)
    two = np.concatenate([stream.numbers(0, np.arange(5)), stream.numbers(1, np.arange(5))])
    assert stream.elements(np.arange(10)).tolist() == two.tolist()


def test_what_there_is_not() -> None:
    with pytest.raises(IndexError):
        RecordStream((3,)).numbers(0, np.array([3]))
    with pytest.raises(IndexError):
        RecordStream((0, 0)).elements(np.array([0]))
    assert len(RecordStream(()).elements(np.zeros(0, np.int64))) == 0
    for rank, ranks in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ValueError):
            share(rank, ranks, 0, 4)


@given(st.integers(1, 9), st.integers(0, 20))
def test_whole_files_are_shared_out(ranks: int, count: int) -> None:
    names = [f"{n}.rec" for n in range(count)]
    shares = [share_of_names(rank, ranks, names) for rank in range(ranks)]
    assert sorted(name for each in shares for name in each) == sorted(names)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
