"""Checkpoints of programs whose runners are working: who goes on from one sees the stream of an undisturbed run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.ir.dtypes import F64, I64
from dfc.ops.creation.philox import numbers
from dfc_runtime.errors import CheckpointError, RunError
from dfc_runtime.module import Module
from tests.support.forked import in_child
from tests.support.pipelines import COUNT, drained, loaded
from tests.support.queue_programs import Reference, bucket_form, form
from tests.support.sweeping import few

LAST = 150
FEED = """
entry feed(k: i64) { numbers.put(k) }
entry finish() { numbers.close() }
"""
EVERY_KIND = """
queue numbers: i64 = fifo(capacity = 5)
queue pool: (k: i64, x: f32[3]) = shuffle_queue(capacity = 12, ready = 8, seed = 5)
queue jobs: (k: i64, key: i64) = priority_queue(capacity = 9, ready = 4, by = "key")
queue words: (word: i64[?], k: i64) = bucket_queue(capacity = 9, bounds = [2, 5])
queue staged: (k: i64[2], length: i64[2]) = staging(depth = 1)
var hash: u64 = 1
SOURCE
runner work with copies = COPIES {
  let k = numbers.take()
  if k % 3 != 0 { pool.put(k, broadcast(k as f32, [3])) }
  hash := hash * 6364136223846793005 + (k as u64)
}
runner sort with copies = COPIES {
  let k, x = pool.take()
  jobs.put(k, k * 7919 % 31 + (sum(x) as i64) - 3 * k)
}
runner spell {
  let k, _ = jobs.take()
  let [L] word: i64[L] = range(k % 6, 5)
  words.put(word, k)
}
runner collect {
  let word, k, length = words.take(2)
  staged.put(k, length)
}
var trained: i64 = 0
entry train() -> (k: i64[2], length: i64[2]) {
  let k, length = staged.take()
  trained += sum(k)
  return k, length
}
"""


def every_kind(copies: int, source: str = COUNT.format(last=LAST)) -> str:
    return EVERY_KIND.replace("COPIES", str(copies)).replace("SOURCE", source)


@cache
def expected(key: tuple[int, int]) -> list[tuple[list[int], list[int]]]:
    """What is trained, by what each queue means, with room for all elements at once."""
    shuffled = Reference(form([(I64, ())], LAST, 8))
    for k in range(LAST):
        if k % 3 != 0:
            shuffled.put(np.int64(k))
    by_key = Reference(form([(I64, ()), (I64, ())], LAST, 4, "f1"))
    for take in range(len(shuffled.elements)):
        ((k,),) = shuffled.take(numbers("uniform", F64, (1,), key, draw=take).tolist())
        by_key.put(k, k * 7919 % 31)
    buckets = Reference(bucket_form([(I64, (0,)), (I64, ())], LAST, [2, 5]))
    for _ in range(len(by_key.elements)):
        k, _ = by_key.take_smallest()
        buckets.put(np.arange(k % 6), k, np.int64(k % 6))
    batches: list[tuple[list[int], list[int]]] = []
    while taken := buckets.take_bucket(2):
        batches.append(([int(k) for _, k, _ in taken], [int(length) for _, _, length in taken]))
    return batches


def hash_of(count: int) -> int:
    hash = 1
    for k in range(count):
        hash = (hash * 6364136223846793005 + k) % 2**64
    return hash


def order(model: Module) -> tuple[int, int]:
    first, second = (int(word) for word in model.state["pool.order"][:2])
    return first, second


def rest(model: Module) -> list[tuple[list[int], list[int]]]:
    """What is trained until the end of the data."""
    return [(batch.k.tolist(), batch.length.tolist()) for batch in drained(model.train)]


def trained(model: Module, count: int) -> list[tuple[list[int], list[int]]]:
    batches = [model.train() for _ in range(count)]
    return [(batch.k.tolist(), batch.length.tolist()) for batch in batches]


@pytest.mark.parametrize("copies", [1, 4])
def test_who_goes_on_from_a_checkpoint_sees_the_same_stream(copies: int, tmp_path: Path) -> None:
    """Checkpoints are taken wherever runners are just then, twice in a row, and before the first call, too."""
    text = every_kind(copies)
    cuts = few([0, 1, 2, 5, 11, 17, 26, 33, 40, 47], 3)
    model, done = loaded(text), []
    batches = expected(order(model))
    for cut in cuts:
        done += trained(model, cut - len(done))
        model.save(tmp_path / "before")
        model.save(tmp_path / str(cut))
    assert done + rest(model) == batches  # and saving has changed nothing
    assert int(model.state["hash"]) == hash_of(LAST)
    model.save(tmp_path / str(len(batches)))
    model.close()
    for cut in (*cuts, len(batches)):
        again = loaded(every_kind(4))  # whatever the number of copies was
        again.restore(tmp_path / str(cut))
        assert rest(again) == batches[cut:], cut
        assert int(again.state["hash"]) == hash_of(LAST)
        assert int(again.state["trained"]) == sum(sum(k) for k, _ in batches)
        again.close()


def fed(model: Module, begin: int, end: int) -> list[tuple[list[int], list[int]]]:
    """What is trained while numbers are fed from another thread, until a batch is long in coming."""
    calls = [model.feed.start(k) for k in range(begin, end)]
    done: list[tuple[list[int], list[int]]] = []
    while True:
        all_fed = all(call.done() for call in calls)
        try:
            batch = model.train(timeout=0.1)
        except (dfc.WaitError, dfc.RunError):
            if all_fed:
                return done
            continue
        done.append((batch.k.tolist(), batch.length.tolist()))


@pytest.mark.parametrize("count", few([0, 1, 13, 31, 62, 77], 2))
def test_runners_that_starve_keep_what_they_have(count: int, tmp_path: Path) -> None:
    """Each waits in front of its first take, one of them having drawn for it; what is fed later goes on from there."""
    text = every_kind(4, FEED)
    model = loaded(text)
    done = fed(model, 0, count)
    model.save(tmp_path)
    again = loaded(text)
    again.restore(tmp_path)
    for each in (model, again):
        calls = [each.feed.start(k) for k in range(count, LAST)]
        calls.append(each.finish.start())
        assert done + rest(each) == expected(order(each))
        assert all(call.result() is None for call in calls)
        assert int(each.state["hash"]) == hash_of(LAST)
        each.close()


def test_where_its_runners_are_no_more_a_program_is_neither_saved_nor_restored(tmp_path: Path) -> None:
    text = "queue numbers: i64 = fifo(capacity = 5)\nentry next() -> i64 { return numbers.take() }"
    model = loaded(text + COUNT.format(last=LAST))
    assert model.next() == 0
    model.save(tmp_path)

    def refused(code: str, reason: str) -> None:
        for done, act in (("saved", model.save), ("restored", model.restore)):
            with pytest.raises(RunError, match=f"the state cannot be {done}: {reason}") as caught:
                act(tmp_path)
            assert caught.value.code == code

    assert in_child(lambda: refused("E0919", "the runners of the program are in the parent process")) == 0
    assert [model.next(), model.next()] == [1, 2]
    model.close()
    refused("E0903", "the module was closed")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_queue_that_fits_is_named_as_a_whole(tmp_path: Path) -> None:
    text = "queue numbers: i64 = fifo(capacity = 5)\nentry next() -> i64 { return numbers.take() }"
    model = loaded(text + COUNT.format(last=LAST))
    first = [model.next() for _ in range(3)]
    model.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"matches no state; there is n, numbers$"):
        model.restore(tmp_path, only="numbers/*")
    with pytest.raises(CheckpointError, match='only="numbers" restores what fits'):
        model.restore(tmp_path, rename={"n": "other"})
    model.restore(tmp_path, only="numbers")
    assert [*first, model.next()] == [0, 1, 2, 3]
