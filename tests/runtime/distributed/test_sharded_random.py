"""Random programs that read and update variables by rows compute the same when the rows lie in several tasks."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.ops.rules import row_sparsity
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sparse_programs import feeds, program, state
from tests.support.sweeping import few

RULES = ("modulo", "blocks", "hash")
SIZES = (5, 1, 40)
PLACES = """
job ps tasks {tasks}
job worker tasks 1
shard "table" axis 0 over ps by {rule}
shard "bias" axis 0 over ps by {rule}
shard "squares" axis 0 over ps by {rule}
shard "narrow" axis 0 over ps by {other}
place "**" on worker
"""


def text_of(seed):
    return PLACES.format(tasks=1 + seed % 3, rule=RULES[seed % 3], other=RULES[(seed + seed // 3) % 3])


def after_a_step(module, seed, size=None):
    for name, value in state(seed).items():
        module.state[name] = value
    made = module.e(**feeds(seed, size or SIZES[seed % 3]))
    return [np.array(made.a), np.array(made.b), *(np.array(module.state[name]) for name in state(seed))]


def replicated(seed):
    """On two workers; gradients of these programs are sums, means or neither, and all are tried."""
    for combine in ("sum", "mean"):
        statement = f'mode = "sync", split = "B", combine = "{combine}", blocks = 4'
        text = text_of(seed).replace("worker tasks 1", "worker tasks 2").replace('place "**" on worker', "")
        try:
            return cluster_bundle(program(seed), f"{text}replicate e over worker with {statement}\n")
        except CompileError as problem:
            codes = {each.code for each in problem.diagnostics}
    assert codes <= {"E0831", "E0832"}
    return None


def test_blocks_of_a_batch_give_the_same_bits_on_any_number_of_workers(monkeypatch):
    monkeypatch.setattr(row_sparsity, "MANY", 0)
    monkeypatch.setattr(row_sparsity, "FEW", 0)
    accepted = 0
    seeds = few(range(8), 2)
    for seed in seeds:
        data = replicated(seed)
        if data is None:
            continue
        accepted += 1
        found = []
        for workers in (1, 2):
            ranks, jobs = workers + 1 + seed % 3, {"worker": workers}
            found.append(on_cluster(data, ranks, lambda module, seed=seed: after_a_step(module, seed, 12), jobs=jobs))
        assert [each.tobytes() for each in found[0]] == [each.tobytes() for each in found[1]]
        wanted = after_a_step(undivided(program(seed)), seed, 12)
        for number, (a, b) in enumerate(zip(wanted, found[0], strict=True)):
            tolerance = 1e-5 if a.dtype == np.float32 or number < 2 else 1e-10
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=f"seed {seed}")
    assert accepted > len(seeds) // 3


@pytest.mark.parametrize("block", few(range(4), 1))
def test_rows_in_several_tasks_mean_the_same(block, monkeypatch):
    monkeypatch.setattr(row_sparsity, "MANY", 0)
    monkeypatch.setattr(row_sparsity, "FEW", 0)
    accepted = 0
    seeds = few(range(block * 4, block * 4 + 4), 2)
    for seed in seeds:
        try:
            data = cluster_bundle(program(seed), text_of(seed))
        except CompileError as problem:  # all rows are multiplied with all rows
            assert {each.code for each in problem.diagnostics} == {"E0832"}
            continue
        accepted += 1
        found = on_cluster(data, 2 + seed % 3, lambda module, seed=seed: after_a_step(module, seed))
        wanted = after_a_step(undivided(program(seed)), seed)
        for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
            tolerance = 1e-5 if a.dtype == np.float32 or number < 2 else 1e-11
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=f"seed {seed}")
    assert accepted > len(seeds) // 3
