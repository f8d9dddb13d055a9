"""Batching: every element once an epoch, in order, the remainder included."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.calls.batching import Epoch, Gathered, plan_batches
from dfc_runtime.errors import FeedError

PARAMETERS = {"images": ["B", None], "labels": ["B"], "rate": []}


def feeds(count: int) -> dict[str, object]:
    images = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
    return {"images": images, "labels": np.arange(count), "rate": 0.1}


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (6, 3), (7, 3), (2, 100)])
def test_every_element_is_used_once_in_order(count: int, size: int) -> None:
    given = feeds(count)
    batching = plan_batches("train", PARAMETERS, given)
    parts = list(batching.split(given, size))
    assert len(parts) == batching.batches(size)
    assert np.concatenate([np.zeros(0, int), *(p["labels"] for p in parts)]).tolist() == list(range(count))
    assert all(p["rate"] == 0.1 and len(p["images"]) == len(p["labels"]) <= size for p in parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "size"), [(0, 3), (1, 3), (6, 3), (7, 3), (8, 3), (2, 100)])
def test_a_shorter_last_batch_can_be_left_out(count: int, size: int) -> None:
    given = feeds(count)
    batching = plan_batches("train", PARAMETERS, given, drops=True)
    parts = list(batching.split(given, size))
    assert len(parts) == batching.batches(size) == count // size
    assert [len(p["labels"]) for p in parts] == [size] * (count // size)  # type: ignore[arg-type]
    assert batching.short(size) == 0
    assert plan_batches("train", PARAMETERS, given).short(size) == count % size


def test_batches_are_views() -> None:
    given = feeds(4)
    first = next(plan_batches("train", PARAMETERS, given).split(given, 2))
    assert np.shares_memory(first["images"], given["images"])  # type: ignore[arg-type]


def test_feeds_that_disagree_are_named() -> None:
    given = feeds(4) | {"labels": np.arange(5)}
    with pytest.raises(FeedError, match="4 in images, 5 in labels"):
        plan_batches("train", PARAMETERS, given)


def test_an_entry_without_symbolic_sizes_cannot_be_cut() -> None:
    with pytest.raises(FeedError, match="nothing to cut"):
        plan_batches("advance", {"steps": []}, {"steps": 3})


def test_a_feed_that_is_no_array_is_named() -> None:
    with pytest.raises(FeedError, match="images"):
        plan_batches("train", PARAMETERS, feeds(4) | {"images": 3})


def test_a_dim_on_a_later_axis_is_cut_there() -> None:
    tokens = np.arange(10).reshape(2, 5)
    parts = list(plan_batches("read", {"tokens": [None, "T"]}, {"tokens": tokens}).split({"tokens": tokens}, 2))
    assert [p["tokens"].shape for p in parts] == [(2, 2), (2, 2), (2, 1)]  # type: ignore[attr-defined]


def test_results_with_the_dim_are_concatenated_and_others_stacked() -> None:
    gathered = Gathered("B", {"digit": ["B"], "loss": []})
    gathered.add({"digit": np.array([1, 2]), "loss": np.float32(0.5)})
    gathered.add({"digit": np.array([3]), "loss": np.float32(0.25)})
    arrays = gathered.arrays()
    assert arrays["digit"].tolist() == [1, 2, 3]
    assert arrays["loss"].tolist() == [0.5, 0.25]


def test_batches_are_put_together_by_their_sizes() -> None:
    epoch = Epoch({"loss": "mean", "hits": "sum", "worst": "max", "best": "min"})
    assert epoch.values() == {}
    epoch.add({"loss": np.float32(1), "hits": 3, "worst": 2.0, "best": -1, "other": np.zeros(3)}, 6)
    epoch.add({"loss": np.float32(4), "hits": 1, "worst": 0.5, "best": -2, "other": np.zeros(3)}, 2)
    assert epoch.examples == 8
    assert epoch.values() == {"loss": 1.75, "hits": 4, "worst": 2.0, "best": -2}


def test_the_size_of_a_batch_is_that_of_its_feeds() -> None:
    given = feeds(7)
    batching = plan_batches("train", PARAMETERS, given)
    assert [batching.size_of(batch) for batch in batching.split(given, 3)] == [3, 3, 1]
