"""Damaged bundles of programs on many ranks: refused in one line, or as good as the original.

That goes for what is inside of them, too: the bundles of the roles, with hashes that are right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.role_checks import check_role
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.transport import waiting
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import BundleError, UnsupportedError
from dfc_runtime.formats import bundle as bundles
from tests.support.bundles import bound, roles_of, sealed, with_manifest, with_role
from tests.support.clusters import cluster_bundle, outcomes_of
from tests.support.mutants import mutant
from tests.support.ranks import outcomes_on
from tests.support.sweeping import few

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


@pytest.mark.parametrize("first", few(range(0, COUNT, BATCH), 2))
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
    """What rank 0 of two is told by a bundle whose section on ranks is changed, and its roles made to fit it."""
    data = bound(with_manifest(cluster_bundle(PROGRAM, DEPLOYMENT), lambda manifest: change(manifest["cluster"])))
    return outcomes_of(data, 1, lambda module: module.train(np.ones((4, 4), np.float32)))[0]


def test_what_the_bundle_says_of_parts_has_to_fit_them():
    def no_feeds(cluster):
        cluster["entries"][0]["feeds"][0].update(roles=[])

    def no_messages(cluster):
        cluster["edges"].clear()

    def seven_runs(cluster):
        cluster["entries"][0]["feeds"][0].update(runs=7)

    def third_axis(cluster):
        cluster["entries"][0]["feeds"][0].update(split_axis=2)

    def divided_scalar(cluster):
        cluster["state"][0].update(rule="modulo", axis=3)

    for change in (no_feeds, no_messages, seven_runs, third_axis, divided_scalar):
        problem = contradict(change)
        assert isinstance(problem, BundleError), problem
        assert problem.message.isprintable()


ROWS = """dfg 1

param w: f32[4] = uniform(-1.0, 1.0)
param t: f32[8, 2] = uniform(-1.0, 1.0)
param u: f32[8, 2] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4], i: i32[B]) -> (loss: f32) {
  let loss = mean(square(x @ w)) + mean(square(t[i])) + sum(u)
  let gw, gt, gu = grad(loss, [w, t, u])
  w := w - 0.1 * gw
  t := t - 0.1 * gt
  u := u - 0.1 * gu
  return loss
}
"""
SPREAD = """
job ps tasks 1
job worker tasks 1
shard "t" axis 0 over ps by modulo
place "u" on ps
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
"""


def loaded(data):
    """What loading it gives on each of two ranks. Nothing is run: some are sealed again, and a seal that says that
    machine code belongs to other tables is trusted as machine code is."""

    def load(comm):
        load_on(data, comm, seconds=20, threads=1, initialise=False).close()

    return outcomes_on(Network(2), load)


def refused(data):
    """The one error on both ranks, or None; told in a line, with the rank that found it where another one tells it."""
    first, second = loaded(data)
    if first is None and second is None:
        return None
    assert type(first) is type(second), (first, second)
    told = [problem.message.partition("\n  on rank ") for problem in (first, second)]
    assert told[0][0] == told[1][0] and "" in (told[0][2], told[1][2]), told
    assert told[0][0].isprintable() and len(told[0][0]) <= 200, told
    return first


@pytest.mark.parametrize("first", few(range(0, 240, 60), 1))
def test_damage_inside_of_a_role_is_refused_on_all_ranks_with_the_code_of_bad_bundles(first, monkeypatch):
    monkeypatch.setattr(waiting, "_LOOK_EVERY", 1)  # threads that wait sleep longer than ranks do
    data = cluster_bundle(ROWS, SPREAD)
    roles = sorted(roles_of(data).items())
    count = 0
    for seed in range(first, first + 60):
        name, role = roles[seed % 2]
        problem = refused(with_role(data, name, mutant(role, seed // 2)))
        if isinstance(problem, UnsupportedError):
            assert "nothing here answers that" in problem.message, seed
        elif problem is not None:
            assert (type(problem), problem.exit_code) == (BundleError, 4), seed
            count += 1
    assert count > 30


def test_every_attribute_of_a_message_is_looked_at_before_anything_runs():
    data = cluster_bundle(ROWS, SPREAD)
    with bundles.opened(data) as opened:
        program = opened.manifest
    topology, kinds = Topology(program.cluster), set()
    for task in topology.by_rank:
        with bundles.opened(roles_of(data)[f"role/{task.role.name}"]) as opened:
            role = opened.manifest
        check_role(role, program, topology, task)
        for number, site in enumerate(role.sites):
            kinds.add(site.kind)
            for name, value in site.attributes.items():
                for wrong in (None, ("x",), 3 if isinstance(value, str) else "x", "nobody:7", -1.5):
                    if (name, wrong) in (("scale", 3), ("scale", -1.5), ("destinations", None)):
                        continue
                    told = {**site.attributes, name: wrong}
                    changed = replace(site, attributes={k: v for k, v in told.items() if v is not None})
                    sites = (*role.sites[:number], changed, *role.sites[number + 1 :])
                    with pytest.raises(ValueError, match=f"of `{site.entry}`"):
                        check_role(replace(role, sites=sites), program, topology, task)
    assert kinds >= {"send", "recv", "contribute", "combined", "route_ids", "routed_rows", "answered_rows"}


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("feeds", lambda manifest: manifest["entries"][0]["parameters"][0].update(type="f64")),
        ("state", lambda manifest: manifest["state"][0].update(shape=[5])),
        ("results", lambda manifest: manifest["entries"][0]["results"][0].update(type="i64")),
    ],
)
def test_a_role_is_of_the_types_that_the_program_states(what, change):
    data = cluster_bundle(ROWS, SPREAD)
    role = sealed(with_manifest(roles_of(data)["role/worker"], change))
    problem = refused(with_role(data, "role/worker", role))
    assert isinstance(problem, BundleError) and "type" in problem.message, (what, problem)


def test_feeds_that_a_part_refuses_are_no_mistake_of_the_caller():
    def other_check(manifest):
        checks = manifest["entries"][0]["checks"]
        place = manifest["entries"][0]["place"]
        checks.append({"left": 5, "relation": "==", "right": 4, "reason": "the bundle says so", "place": place})

    data = cluster_bundle(PROGRAM, DEPLOYMENT)
    role = sealed(with_manifest(roles_of(data)["role/worker"], other_check))
    damaged = with_role(data, "role/worker", role)
    problem = outcomes_of(damaged, 1, lambda module: module.train(np.ones((4, 4), np.float32)))[0]
    assert isinstance(problem, BundleError) and problem.exit_code == 4
    assert "refuses its feeds: " in problem.message


@pytest.mark.parametrize(
    "change",
    [
        lambda result: result.update(shape=[8, 2]),
        lambda result: result.update(shape=[3, 2]),
        lambda result: result.update(shape=[4, 3]),
        lambda result: result.update(shape=[2]),
        lambda result: result.update(type="f64"),
    ],
)
def test_a_result_by_rows_has_room_for_the_most_rows_of_a_task(change):
    program = "dfg 1\nparam t: f32[7, 2] = 1\nreadonly entry all() -> f32[7, 2] { return t * 2.0 }"
    data = cluster_bundle(program, '\njob ps tasks 2\nshard "t" axis 0 over ps by hash\n')
    assert np.array_equal(outcomes_of(data, 2, lambda module: module.all())[0], np.full((7, 2), 2, np.float32))
    role = sealed(with_manifest(roles_of(data)["role/ps"], lambda m: change(_entry(m, "all")["results"][0])))
    problem = refused(with_role(data, "role/ps", role))
    assert isinstance(problem, BundleError) and "of another type in the role ps" in problem.message, problem


def _entry(manifest, name):
    return next(each for each in manifest["entries"] if each["name"] == name)
