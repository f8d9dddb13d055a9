"""Orders of updates in files: a run of steps that replicas take by themselves, made again with the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import pytest

import dfc
from dfc.cli.ranks.update_orders import Call, Log, recording, replaying, with_orders
from dfc_runtime.distributed.transport.in_process import Faults
from tests.support.clusters import cluster_bundle, on_cluster

PROGRAM = """
param w: f32[2] = 8
entry train[B](x: f32[B, 2], rate: f32) {
  w -= rate * grad(mean(sum(square(w - x), axis = 1)), w)
}
entry read() -> f32[2] { return w }
"""
DEPLOYMENT = """
job ps tasks 1
job worker tasks 2
replicate train over worker with mode = "async", split = "B", blocks = 8
"""
X = np.arange(16, dtype=np.float32).reshape(8, 2)


class Steps:
    """A log whose calls have the orders [1], [2], and so on."""

    def __init__(self) -> None:
        self.order: list[int] = [0]
        self.replayed: list[Sequence[int]] = []

    def read(self) -> Steps:
        return self

    def replay(self, order: Sequence[int]) -> None:
        self.replayed.append(order)

    def call(self) -> None:
        self.order = [self.order[0] + 1]


def wrapped(kind: Callable[..., Call], log: Log, path: Path, call: Call, start: int = 0) -> Call:
    return kind(call, log, path, "train", 2, start)


def test_a_run_that_is_replayed_has_the_bits_of_the_one_that_was_recorded(tmp_path: Path) -> None:
    bundle = cluster_bundle(PROGRAM, DEPLOYMENT)

    def after(files: tuple[str | None, str | None]) -> Callable[[dfc.ClusterModule], bytes]:
        def work(module: dfc.ClusterModule) -> bytes:
            call = with_orders(module.train, module, "train", files, 0)
            for rate in (0.1, 0.2, 0.3):
                call(x=X, rate=rate)
            return module.state["w"].tobytes()

        return work

    path = str(tmp_path / "orders")
    first = on_cluster(bundle, 3, after((path, None)), faults=Faults(1, delay=6))
    orders = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert [each["call"] for each in orders[1:]] == [1, 2, 3]
    for seed in range(3):
        assert on_cluster(bundle, 3, after((None, path)), faults=Faults(seed, delay=6)) == first


def test_a_run_that_goes_on_records_over_what_was_undone(tmp_path: Path) -> None:
    log, path = Steps(), tmp_path / "orders"
    call = wrapped(recording, log, path, log.call)
    for _ in range(5):
        call()
    with path.open("a") as file:
        file.write('{"call": 6, "ord')  # killed
    call = wrapped(recording, log, path, log.call, start=3)
    call()
    again = wrapped(replaying, log, path, lambda: None)
    for _ in range(4):
        again()
    assert log.replayed == [[1], [2], [3], [6]]
    with pytest.raises(dfc.FeedError, match="no order of call 5, but of 4 calls"):
        again()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "was not written by --record"),
        ("{}\n", "was not written by --record"),
        ('{"format": "dfc order of updates 1", "entry": "fit", "tasks": 2}\n', "of calls of `fit`, not of `train`"),
        ('{"format": "dfc order of updates 1", "entry": "train", "tasks": 1}\n', "of 1 task, and now there are 2"),
        ('{"format": "dfc order of updates 1", "entry": "train", "tasks": 2}\n{"call": 1}\n', "was not written by"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "orders"
    path.write_text(text)
    with pytest.raises(dfc.FeedError, match=words):
        wrapped(replaying, Steps(), path, lambda: None)


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(dfc.FileError, match=r"cannot read .*: No such file"):
        wrapped(replaying, Steps(), tmp_path / "none", lambda: None)
    with pytest.raises(dfc.FileError, match=r"cannot write .*: Is a directory"):
        wrapped(recording, Steps(), tmp_path, lambda: None)
    with pytest.raises(dfc.FeedError, match="no order of call 1"):
        log, path = Steps(), tmp_path / "orders"
        wrapped(recording, log, path, log.call)
        wrapped(recording, log, path, log.call, start=1)


def test_other_entries_have_no_order_of_updates() -> None:
    module = dfc.loads(dfc.compile(text="dfg 1\nentry f() -> i64 { return 1 }\n").to_bytes())
    assert with_orders(module.f, module, "f", (None, None), 0) == module.f
    with pytest.raises(click.UsageError, match="--replay is for entries whose replicas take steps of their own"):
        with_orders(module.f, module, "f", (None, "orders"), 0)
