"""Traces of many ranks: one file with all of them, on one clock, with the lines of the source."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dfc.cli.tracing import traces
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import DfcError
from tests.support.quick_code import quick_code
from tests.support.ranks import outcomes_on

PROGRAM = """dfg 1

param w: f32[4, 3] = 0.5

entry train[B](x: f32[B, 4]) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w -= 0.1 * grad(loss, w)
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
X = np.ones((8, 4), np.float32)


@pytest.fixture(scope="module")
def bundle() -> bytes:
    options = CompileOptions(timed=True)
    deploy = SourceFile("model.deploy", DEPLOYMENT)
    return compile_source(SourceFile("model.dfg", PROGRAM), options, deploy).to_bytes()


def losses(bundle: bytes, path: Path | None, *, serves: bool = True) -> list[object]:
    """What the ranks got of three calls each."""

    def run(comm):
        module = load_on(bundle, comm, seconds=20, threads=1, trace=path)
        try:
            if comm.rank and serves:
                return module.serve()
            return [float(module.train(X).loss) for _ in range(3)]
        finally:
            module.close()

    return outcomes_on(Network(2), run)


@pytest.mark.parametrize("serves", [True, False])
def test_one_file_has_kernels_sums_and_waits_of_all_ranks(bundle: bytes, tmp_path: Path, serves: bool) -> None:
    path = tmp_path / "t.json"
    assert losses(bundle, path, serves=serves)[0] == losses(bundle, None)[0]
    trace = traces.read(path)
    assert trace.ranks == {0: "rank 0 (worker task 0)", 1: "rank 1 (worker task 1)"}
    for rank in (0, 1):
        mine = [each for each in trace.events if each.rank == rank]
        blocks = {"contribution": 3 * 2, "combination": 3 * 2}  # calls, values
        counts = {category: sum(each.category == category for each in mine) for category in blocks}
        assert counts == blocks
        assert {each.location for each in mine if each.category == "kernel"} >= {"model.dfg:6", "model.dfg:7"}
    calls = [each for each in trace.events if each.category == "call"]
    assert [each.name for each in calls if each.rank == 0] == ["train"] * 3


def test_tasks_that_take_steps_of_their_own_show_their_messages(tmp_path: Path) -> None:
    mode = DEPLOYMENT.replace("job worker", "job ps tasks 1\njob worker").replace('"sync"', '"async"')
    with quick_code():
        deploy = SourceFile("model.deploy", mode)
        data = compile_source(SourceFile("model.dfg", PROGRAM), CompileOptions(), deploy).to_bytes()

    def run(comm):
        module = load_on(data, comm, seconds=20, threads=1, trace=tmp_path / "t.json")
        try:
            return module.serve() if comm.rank else module.train(X)
        finally:
            module.close()

    outcomes_on(Network(3), run)
    events = [each for each in traces.read(tmp_path / "t.json").events if each.category in ("send", "receive")]
    assert {(each.entry, each.location) for each in events} == {("train", "model.dfg:5")}
    # two tasks want variables, and again behind each of four steps, or hear that all are done
    assert Counter((each.rank > 0, each.category) for each in events) == {
        (False, "send"): 6,
        (False, "receive"): 6,
        (True, "send"): 6,
        (True, "receive"): 6,
    }
    assert {each.name for each in events if each.rank} == {"to rank 0 (ps task 0)", "from rank 0 (ps task 0)"}


def test_clocks_of_ranks_on_one_machine_agree_within_the_error_that_is_told(bundle: bytes, tmp_path: Path) -> None:
    losses(bundle, tmp_path / "t.json")
    first, second = json.loads((tmp_path / "t.json").read_text())["otherData"]["ranks"]
    assert first["clock_offset_ns"] == 0
    assert abs(second["clock_offset_ns"]) <= second["clock_error_ns"]


def test_a_rank_that_is_not_traced_is_named(bundle: bytes, tmp_path: Path) -> None:
    def run(comm):
        trace = tmp_path / "t.json" if comm.rank == 0 else None
        module = load_on(bundle, comm, seconds=20, threads=1, trace=trace)
        return module.serve() if comm.rank else None

    outcome = outcomes_on(Network(2), run)[0]
    assert isinstance(outcome, DfcError)
    assert "rank 1 is not traced" in outcome.message
