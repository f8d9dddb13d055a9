"""Tables of manifests that were edited in one place and hashed again, thousands of them: not one gets to run.

Code works on the addresses it is given, so a table that says something else than what it was compiled for would make it
read and write anywhere: of the same edits, sealed anew, some end the interpreter by a signal. The edits of one rank, of
many ranks, around the roles and inside of them, and of a plan for a GPU are loaded and run in forked children.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport import waiting
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import BundleError, DfcError
from dfc_target_cuda.target import SIMULATOR
from tests.support.bundles import bound, roles_of, with_manifest, with_role
from tests.support.clusters import cluster_bundle
from tests.support.forked import in_child
from tests.support.mutants import edit
from tests.support.ranks import outcomes_on
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import few

PROGRAM = """dfg 1

param w: f32[4, 2] = uniform(-1.0, 1.0)
param t: f32[8, 2] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry train[B](x: f32[B, 4], i: i32[B]) -> (loss: f32) {
  let loss = mean(square(x @ w + t[i])) + mean(square(t))
  let gw, gt = grad(loss, [w, t])
  w := w - 0.1 * gw
  t := t - 0.1 * gt
  seen += B
  summary.scalar("loss", loss)
  return loss
}

entry walk[N](x: f32[N]) -> (y: f32[N], most: f32) {
  let y = loop y = x for k in 0..4 { y = tanh(y) + 0.5 * x }
  debug.print("most {}", max(y))
  return y, max(y)
}
"""
SPREAD = """
job ps tasks 1
job worker tasks 1
shard "t" axis 0 over ps by modulo
place "seen" on ps
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
step "train/loss" from "x", "i"
"""
X, ROWS = np.ones((4, 4), np.float32), np.arange(4, dtype=np.int32)
TABLES = ("entries", "sites", "state", "images", "notes", "cluster", "constant_offsets", "faults")


def edited(data: bytes, seed: int) -> bytes | None:
    """The bundle with one value of a table changed, if that makes it another one."""
    random_ = random.Random(seed)
    changed = []

    def change(manifest: dict) -> None:
        before = repr(manifest)
        table = random_.choice([name for name in TABLES if manifest.get(name)])
        edit(manifest if seed % 8 == 0 else manifest[table], random_)
        changed.append(repr(manifest) != before)

    other = with_manifest(data, change)
    return other if changed[0] else None


def use(model) -> None:
    model.train(X, ROWS)
    model.walk(X[0])
    assert int(model.state["seen"]) == 4


def run_alone(data: bytes) -> list[object]:
    try:
        use(dfc_runtime.loads(data, threads=1, summaries=lambda _: None))
    except DfcError as problem:
        return [problem]
    return [None]


def run_on_ranks(data: bytes) -> list[object]:
    def on(comm):
        module = load_on(data, comm, seconds=20, threads=1, summaries=lambda _: None)
        try:
            if comm.rank == 0:
                use(module)
                module.run("train/loss", {"x": X, "i": ROWS})
            else:
                module.serve()
        finally:
            module.close()

    return outcomes_on(Network(2), on)


def all_refused(data: bytes, seeds: range, run: Callable[[bytes], list[object]]) -> None:
    """Nothing runs, and what is said is one line; on many ranks rank 0 says it, or the rank that has found it."""
    assert run(data)[0] is None
    for seed in seeds:
        other = edited(data, seed)
        if other is None:
            continue
        problem = next((each for each in run(other) if isinstance(each, DfcError)), None)
        assert isinstance(problem, DfcError), f"edit {seed} gets to run"
        line = problem.message.partition("\n")[0]
        assert line.isprintable() and len(line) <= 200, f"edit {seed}: {line}"
        if isinstance(problem, BundleError):
            assert problem.exit_code == 4


@pytest.mark.parametrize("first", few(range(0, 2000, 125), 1))
def test_edits_of_a_program_on_one_rank_never_run(first: int) -> None:
    data = dfc.compile(text=PROGRAM).to_bytes()
    assert in_child(lambda: all_refused(data, range(first, first + 125), run_alone)) == 0


@pytest.mark.parametrize("first", few(range(0, 1000, 60), 1))
def test_edits_of_a_plan_for_a_gpu_never_run(first: int) -> None:
    data = dfc.compile(text=PROGRAM, target="cuda", variants=[SIMULATOR]).to_bytes()
    with simulated_devices():
        assert in_child(lambda: all_refused(data, range(first, first + 60), run_alone)) == 0


@pytest.mark.parametrize("first", few(range(0, 1200, 60), 1))
def test_edits_of_what_is_said_of_all_ranks_never_run(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_EVERY", 1)  # threads that wait sleep longer than ranks do
    data = cluster_bundle(PROGRAM, SPREAD)
    assert in_child(lambda: all_refused(data, range(first, first + 60), run_on_ranks)) == 0


@pytest.mark.parametrize("role", ["ps-0", "worker-0"])
def test_edits_inside_of_a_role_never_run(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_EVERY", 1)
    data = cluster_bundle(PROGRAM, SPREAD)
    inner = roles_of(data)[f"role/{role}"]

    def work() -> None:
        for seed in few(range(400), 25):
            other = edited(inner, seed)
            if other is None:
                continue
            told = run_on_ranks(with_role(data, f"role/{role}", other))
            assert all(isinstance(each, DfcError) for each in told), (seed, told)

    assert in_child(work) == 0


def test_code_of_edited_tables_is_not_even_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("code was mapped")

    data = dfc.compile(text=PROGRAM).to_bytes()
    wider = with_manifest(data, lambda m: m["entries"][0]["parameters"][0].update(shape=[["$B"], 4000]))
    monkeypatch.setattr("dfc_driver_cpu.driver.MappedCode", refuse)
    for act in (dfc_runtime.verify, dfc_runtime.loads):
        with pytest.raises(BundleError, match=r"its manifest is not the one that code/.* was compiled with") as caught:
            act(wider)
        assert caught.value.code == "E0906"


def test_a_role_belongs_to_the_manifest_around_it() -> None:
    data = cluster_bundle(PROGRAM, SPREAD)
    other = with_manifest(data, lambda m: m["cluster"].update(compressed=[["ps", "worker"]]))
    told = run_on_ranks(other)
    assert all("was compiled with" in each.message for each in told)
    assert run_on_ranks(bound(other)) == [None, None]
