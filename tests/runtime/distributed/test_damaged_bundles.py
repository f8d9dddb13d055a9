"""Damaged bundles of programs on many ranks: refused in one line, or as good as the original."""

from __future__ import annotations

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.distributed.in_process import Network
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.errors import BundleError
from tests.support.bundles import with_manifest
from tests.support.clusters import cluster_bundle, outcomes_of
from tests.support.mutants import mutant

PROGRAM = """dfg 1

param w: f32[4] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4]) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w := w - 0.1 * grad(loss, w)
  return loss
}
"""
DEPLOYMENT = """
job worker tasks 1
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
"""
COUNT, BATCH = 200, 50


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_damage_is_refused_with_one_line(first):
    data = cluster_bundle(PROGRAM, DEPLOYMENT)
    refused = 0
    for seed in range(first, first + BATCH):
        damaged = mutant(data, seed)
        try:
            dfc_runtime.verify(damaged)
            load_on(damaged, Network(1).comm(0), threads=1).close()
        except BundleError as problem:
            refused += 1
            assert problem.exit_code == 4
            assert problem.message.isprintable()
            assert len(problem.message) <= 200
    assert refused > BATCH // 2


def contradict(change):
    """What rank 0 of two is told by a bundle whose section on ranks is changed."""
    data = with_manifest(cluster_bundle(PROGRAM, DEPLOYMENT), lambda manifest: change(manifest["cluster"]))
    return outcomes_of(data, 1, lambda module: module.train(np.ones((4, 4), np.float32)))[0]


def test_what_the_bundle_says_of_parts_has_to_fit_them():
    def no_feeds(cluster):
        cluster["entries"][0]["feeds"][0].update(roles=[])

    def no_messages(cluster):
        cluster["edges"].clear()

    def seven_runs(cluster):
        cluster["entries"][0]["feeds"][0].update(runs=7)

    for change in (no_feeds, no_messages, seven_runs):
        problem = contradict(change)
        assert isinstance(problem, BundleError), problem
        assert problem.message.isprintable()
