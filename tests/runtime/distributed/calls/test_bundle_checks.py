"""Bundles for many ranks: who looks at one and who loads it have the same opinion."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dfc_runtime
from dfc_runtime.errors import BundleError
from tests.gate import bundles
from tests.support import gating
from tests.support.bundles import bound, roles_of, sealed, with_manifest, with_role
from tests.support.clusters import cluster_bundle
from tests.support.command_line import Command, command


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


def of_ranks(change):
    """A bundle that says something else of its ranks, its roles made to fit."""
    return bound(with_manifest(bundles.spread(), lambda manifest: change(manifest["cluster"])))


def of_role(change):
    """A bundle with other tables in the role of the workers, whose code was made to fit."""
    role = sealed(with_manifest(roles_of(bundles.spread())["role/worker"], change))
    return with_role(bundles.spread(), "role/worker", role)


EDITED = {
    "no feeds": lambda: of_ranks(lambda cluster: cluster["entries"][0]["feeds"][0].update(roles=[])),
    "no messages": lambda: of_ranks(lambda cluster: cluster["edges"].clear()),
    "third axis": lambda: of_ranks(lambda cluster: cluster["entries"][0]["feeds"][0].update(split_axis=2)),
    "not bound": lambda: with_manifest(bundles.spread(), lambda m: m["cluster"]["jobs"][0].update(elastic=True)),
    "other roles": lambda: bundles.roles_of_others(random.Random(0)),
    "cut role": lambda: with_role(bundles.spread(), "role/worker", roles_of(bundles.spread())["role/worker"][:-5]),
    "no bundle": lambda: with_role(bundles.spread(), "role/worker", b"no bundle"),
    "other state": lambda: of_role(lambda manifest: manifest["state"][0].update(shape=[5])),
    "unanswered request": lambda: of_role(lambda manifest: manifest["sites"][0].update(kind="")),
    "other feeds": lambda: of_role(lambda manifest: manifest["entries"][0]["parameters"][0].update(name="y")),
}


@pytest.mark.parametrize("name", EDITED)
def test_what_load_refuses_is_not_called_whole(name: str, tmp_path: Path, dfc: Command) -> None:
    data = EDITED[name]()
    assert bundles.fault(data) == ""
    (tmp_path / "x.bundle").write_bytes(data)
    ended = dfc("verify", tmp_path / "x.bundle")
    assert (ended.code, len(ended.err.splitlines())) == (4, 1)
    with pytest.raises(BundleError):
        dfc_runtime.verify(data)


def test_a_whole_bundle_is_whole(tmp_path: Path, dfc: Command) -> None:
    assert bundles.fault(bundles.spread()) == ""
    (tmp_path / "x.bundle").write_bytes(bundles.spread())
    assert "whole; model" in dfc("verify", tmp_path / "x.bundle").out


def test_tasks_of_a_role_that_are_alike_are_looked_at_once(monkeypatch) -> None:
    from dfc_runtime.distributed.calls import bundle_checks

    program = "dfg 1\nparam w: f32[4] = 1\nentry f[B](x: f32[B, 4]) -> f32 { return mean(x @ w) }\n"
    replicated = 'replicate f over worker with mode = "sync", split = "B", combine = "mean", blocks = 64'
    data = cluster_bundle(program, f"\njob worker tasks 50\n{replicated}\n")
    looked, check = [], bundle_checks.check_part
    monkeypatch.setattr(bundle_checks, "check_part", lambda *parts: looked.append(parts[3].number) or check(*parts))
    dfc_runtime.verify(data)
    assert {0, 49} <= {*looked} and len(looked) < 10


def test_a_part_that_was_compiled_ahead_is_looked_at() -> None:
    deployment = '\njob worker tasks 1\nstep "f/y" from "f/x"\n'
    program = "dfg 1\nparam w: f32[4] = 1\nentry f[B](x: f32[B, 4]) -> f32 {\n  let y = x @ w\n  return mean(y)\n}\n"
    data = cluster_bundle(program, deployment)
    dfc_runtime.verify(data)
    damaged = with_role(data, "part/0", b"no bundle")
    with pytest.raises(BundleError):
        dfc_runtime.verify(damaged)
    assert bundles.fault(damaged) == ""


def test_a_few_cases_of_the_gate() -> None:
    seed = 11
    assert list(gating.findings(bundles.cases(seed), 40)) == [], f"seed {seed}"
