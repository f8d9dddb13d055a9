"""Kernels measured on all ranks: one profile of them, by which programs are placed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver import many_ranks as cluster
from dfc.driver import pipeline, profiles
from dfc.driver.api import _built, _costs, compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.metering import MeasuredKernel, Metering, RankTimes
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import FeedError
from dfc_runtime.observe.kernel_times import TICK, Meter
from tests.support.clusters import undivided
from tests.support.ranks import outcomes_on

PROGRAM = """dfg 1

param w: f32[16, 8] = normal(0, 0.1)
param v: f32[8] = normal(0, 0.1)

entry train[B](x: f32[B, 16], y: f32[B], rate: f32) -> (loss: f32) {
  let hidden = tanh(x @ w)
  let loss = mean(square(hidden @ v - y))
  let dw, dv = grad(loss, [w, v])
  w -= rate * dw
  v -= rate * dv
  return loss
}
"""
PLACES = """deploy 1 for "model.dfg"
job ps tasks 1
job worker tasks 2
place "v" on ps
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = {blocks}
"""
RANDOM = np.random.default_rng(6)
X, Y = RANDOM.normal(size=(16, 16)).astype(np.float32), RANDOM.normal(size=16).astype(np.float32)


@cache
def bundle(blocks: int, *, timed: bool) -> bytes:
    deploy = SourceFile("model.deploy", PLACES.format(blocks=blocks))
    return compile_source(SourceFile("model.dfg", PROGRAM), CompileOptions(timed=timed), deploy).to_bytes()


def measured_on(data: bytes, calls: int) -> list[RankTimes]:
    found: list[RankTimes] = []

    def run(comm):
        meter = Meter()
        module = load_on(data, comm, seconds=20, threads=1, handlers={TICK: meter.tick})
        Metering(meter, module, found.extend).start()
        try:
            if comm.rank:
                module.serve()
            for _ in range(calls if comm.rank == 0 else 0):
                module.train(X, Y, 0.1)
        finally:
            module.close()

    for outcome in outcomes_on(Network(3), run):
        if isinstance(outcome, BaseException):
            raise outcome
    return found


def test_every_rank_tells_what_it_has_measured():
    calls, blocks = 5, 4
    ps, *workers = measured_on(bundle(blocks, timed=True), calls)
    assert {each.entry for each in ps.kernels} <= {"train", "init"}
    for worker in workers:
        products = [each for each in worker.kernels if "train/hidden/matmul" in each.names]
        assert [each.launches for each in products] == [calls * blocks // 2]
        assert products[0].location == "model.dfg:7"
        assert all(0 <= each.seconds < 10 for each in worker.kernels)
        assert worker.overhead > 0


def test_measurements_of_ranks_become_one_profile(tmp_path):
    slow = MeasuredKernel("train", ("train/a",), "m.dfg:3", 3.0, 1)
    quick = [MeasuredKernel("train", ("train/a",), "m.dfg:3", seconds, 10) for seconds in (1.0, 2.0)]
    other = MeasuredKernel("train", ("train/b",), "m.dfg:4", 0.5, 7)
    ranks = [RankTimes(0.1, (slow,)), RankTimes(0.3, (quick[0], other)), RankTimes(0.2, (quick[1],)), RankTimes(9, ())]
    profile = profiles.merged("m", ranks, {"train": 4})
    assert {each.names: (each.seconds, each.launches) for each in profile.kernels} == {
        ("train/a",): (2.0, 21),
        ("train/b",): (0.5, 7),
    }
    assert profile.overhead == 0.2
    profile.write(tmp_path / "p.json")
    read = profiles.read(tmp_path / "p.json")
    assert (read.blocks, sorted(read.kernels, key=str)) == ({"train": 4}, sorted(profile.kernels, key=str))


@pytest.mark.parametrize(("measured_in", "blocks", "factor"), [(4, 4, 1.0), (4, 8, 0.5), (1, 8, 1 / 8)])
def test_a_block_costs_as_much_as_it_is_large(tmp_path, measured_in, blocks, factor):
    source = SourceFile("model.dfg", PROGRAM)
    built, _ = _built(source, CompileOptions())
    whole = pipeline.optimise(built)
    kernel = MeasuredKernel("train", ("train/hidden/matmul",), "model.dfg:7", 2.0, 1)
    profiles.merged("model", [RankTimes(0.0, (kernel,))], {"train": measured_in}).write(tmp_path / "p.json")
    deploy = SourceFile("model.deploy", PLACES.format(blocks=blocks))
    plain, known = (
        cluster.distribute(built, whole, deploy, costs) for costs in (None, _costs(whole, tmp_path / "p.json"))
    )
    rounds = -(-blocks // 2)

    def loop(spread):
        decisions = spread.placed.entries["train"]
        return max(each.finish - each.start for each in decisions if each.node.op == "for")

    assert loop(known) - loop(plain) == pytest.approx(rounds * 2.0 * factor, rel=1e-3)


def test_a_profile_of_ranks_is_one_to_place_by(tmp_path):
    profile = profiles.merged("model", measured_on(bundle(4, timed=True), 3), {"train": 4})
    profile.write(tmp_path / "p.json")
    built, _ = _built(SourceFile("model.dfg", PROGRAM), CompileOptions())
    whole = pipeline.optimise(built)
    names = set(profiles.measured(profiles.read(tmp_path / "p.json"), whole))
    assert {"train/hidden/matmul", "train/hidden"} <= names
    placed = cluster.distribute(
        built, whole, SourceFile("d", PLACES.format(blocks=8)), _costs(whole, tmp_path / "p.json")
    )
    assert placed.placed.entries["train"]


def test_a_bundle_without_clocks_is_refused():
    with pytest.raises(FeedError, match="model has no clocks: compile it with --timed"):
        measured_on(bundle(4, timed=False), 1)


def test_measuring_changes_no_number():
    def loss(data):
        def run(comm):
            module = load_on(data, comm, seconds=20, threads=1)
            try:
                return float(module.train(X, Y, 0.1).loss) if comm.rank == 0 else module.serve()
            finally:
                module.close()

        return outcomes_on(Network(3), run)[0]

    assert loss(bundle(4, timed=True)) == loss(bundle(4, timed=False))
    assert isinstance(undivided(PROGRAM).train(X, Y, 0.1).loss, np.float32)
