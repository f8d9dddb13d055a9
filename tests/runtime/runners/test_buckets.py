"""Batches of elements of like length: the same ones for any number of copies, and each element in one of them."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import I32, I64
from dfc_runtime.errors import FeedError, RunError
from tests.support.pipelines import COUNT, drained, loaded
from tests.support.queue_programs import Reference, bucket_form
from tests.support.sweeping import few

LAST, BOUNDS, CAPACITY = 400, tuple(range(8, 65, 8)), 57


def length_of(k: int) -> int:
    return (k * 7919 % 131) // 2 % 65


TEXT = """
queue numbers: i64 = fifo(capacity = 7)
queue sentences: (words: i32[?], k: i64) = bucket_queue(capacity = {capacity}, bounds = {bounds})
{source}
runner make with copies = {copies} {{
  let k = numbers.take()
  let work = loop x = 1.0 for i in 0..(k * 7919 % 13) * 20 {{ x = x * 1.5 - x * 0.5 }}
  let [L] word: i64[L] = range(k * 7919 % 131 // 2 % 65, 64)
  if k % 7 != 0 {{ sentences.put(word as i32 + (k as i32) * (work as i32), k) }}
}}
entry batch() -> (words: i32[?, ?], k: i64[?], length: i64[?]) {{
  let words, k, length = sentences.take_up_to(8)
  return words, k, length
}}
"""


def expected() -> list[tuple[list[int], list[list[int]], list[int]]]:
    """The batches, with room for all elements at once: how many there is room for makes no difference."""
    form = bucket_form(((I32, (0,)), (I64, ())), LAST, BOUNDS)
    reference = Reference(form)
    for k in range(LAST):
        if k % 7 != 0:
            length = length_of(k)
            reference.put(np.arange(length, dtype=np.int32) + k, np.int64(k), np.int64(length))
    batches: list[tuple[list[int], list[list[int]], list[int]]] = []
    while taken := reference.take_bucket(8, is_closed=True):
        most = max(int(length) for _, _, length in taken)
        rows = [np.pad(words, (0, most - len(words))).tolist() for words, _, _ in taken]
        batches.append(([int(k) for _, k, _ in taken], rows, [int(length) for _, _, length in taken]))
    return batches


@pytest.mark.parametrize("copies", few([1, 3, 9], 2))
def test_copies_of_a_runner_make_the_batches_of_one_with_little_padding(copies: int) -> None:
    model = loaded(TEXT.format(source=COUNT.format(last=LAST), copies=copies, capacity=CAPACITY, bounds=list(BOUNDS)))
    batches = [(each.k.tolist(), each.words.tolist(), each.length.tolist()) for each in drained(model.batch)]
    assert batches == expected()
    used = sum(sum(lengths) for _, _, lengths in batches)
    padded = sum(len(rows) * len(rows[0]) for _, rows, _ in batches)
    assert 0.9 * padded < used < padded
    model.close()


FEEDS = """
queue sentences: i64[?] = bucket_queue(capacity = 9, bounds = [2, 4, 6])
queue lengths: i64 = fifo(capacity = 2)
entry feed[N](words: i64[N]) { sentences.put(words) }
entry ask(n: i64) { lengths.put(n) }
entry finish() { sentences.close() }
entry three() -> (length: i64[3]) {
  let words, length = sentences.take(3)
  return length
}
runner find {
  let n = lengths.take()
  let [N] found: i64[N] = range(n, 9)
  sentences.put(found)
}
"""


def test_a_take_waits_until_one_bucket_has_enough() -> None:
    model = loaded(FEEDS)
    for length in (1, 3, 2, 4):
        model.feed(np.zeros(length, np.int64))
    with pytest.raises(RunError, match="`three` waits for 3 elements in the queue `sentences`"):
        model.three()
    model.feed(np.zeros(0, np.int64))
    assert model.three().length.tolist() == [1, 2, 0]


def test_a_sentence_that_no_bucket_has_room_for_is_refused() -> None:
    model = loaded(FEEDS)
    with pytest.raises(FeedError, match="wants 6 >= N, but N = 7"):
        model.feed(np.zeros(7, np.int64))
    model.ask(9)
    with pytest.raises(RunError, match="the runner `find` has failed in iteration 0: 6 >= N does not hold"):
        model.three()
    model.close()
