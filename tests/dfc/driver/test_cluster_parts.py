"""Parts of entries compiled ahead for many ranks: what a bundle lists, where a part has its state, what is refused."""

from __future__ import annotations

from functools import cache

import pytest

from dfc.diagnostics.diagnostic import CompileError, render
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc_runtime.formats.bundle import opened
from dfc_runtime.formats.cluster import PART, Cluster
from dfc_runtime.formats.manifest import Manifest
from tests.support.clusters import cluster_bundle

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 3], rate: f32) -> (loss: f32, p: f32[B, 3]) {
  let h = x @ w
  let p = tanh(h)
  let loss = mean(square(p - y))
  w := w - rate * grad(loss, w)
  steps := steps + 1
  let count = steps
  return loss, p
}

entry sized[N](by: f32) -> (x: f32[N]) {
  let k = loop k: i32 = 0 while k < 3 {
    let next = k + 1
    k = next
  }
  let ramp = iota(f32[N])
  return ramp * by
}
"""
JOBS = """
job ps     tasks 2
job worker tasks 2
place "steps" on ps task 1
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""


@cache
def part_of(step: str, jobs: str = JOBS) -> tuple[Cluster, Manifest]:
    """What a bundle with one step says of ranks, and the manifest of the part."""
    with opened(cluster_bundle(PROGRAM, f"{jobs}{step}\n")) as bundle:
        assert bundle.manifest.cluster is not None
        with opened(bundle.read(f"{PART}0")) as part:
            return bundle.manifest.cluster, part.manifest


def test_a_bundle_lists_its_parts_by_every_name_of_what_they_fetch_and_are_fed() -> None:
    cluster, _ = part_of('step "train/loss", "train/p" from "h", "train/y"')
    (part,) = cluster.parts
    assert str(part) == "train/loss, train/p from h, train/y"
    assert [names[0] for names in part.fetches] == ["train/loss", "train/p"]
    assert [(each.names, each.parameter) for each in part.feeds] == [
        (("h", "train/h"), "train/h"),
        (("train/y", "y"), "y"),
    ]


def test_a_bundle_has_the_text_of_its_deployment_file_and_a_part_has_none() -> None:
    with opened(cluster_bundle(PROGRAM, JOBS)) as bundle:
        assert bundle.manifest.cluster is not None
        assert bundle.manifest.cluster.deployment == "model.deploy"
        assert bundle.read("deployment").decode().endswith("blocks = 8\n")
    _, part = part_of('step "train/count"')
    assert part.cluster is not None and not part.cluster.deployment


def test_a_part_is_cut_like_the_entry_and_has_its_state_where_that_has_it() -> None:
    cluster, manifest = part_of('step "train/loss" from "x", "y"')
    part = manifest.cluster
    assert part is not None
    (entry,) = part.entries
    assert (entry.replicated_over, entry.split, entry.blocks) == ("worker", "B", 8)
    assert {each.name: each.split_axis for each in entry.feeds} == {"x": 0, "y": 0}
    assert set(part.state) <= set(cluster.state)
    assert [each.name for each in part.state] == ["w"]
    assert {each.name: each.site for each in part_of('step "train/count"')[1].cluster.state} == {"steps": "ps:1"}


def test_a_part_that_is_fed_nothing_that_could_be_cut_runs_once() -> None:
    _, manifest = part_of('step "sized/x" from "N", "by"')
    assert manifest.cluster is not None
    assert not manifest.cluster.entries[0].blocks


def test_nothing_of_a_part_is_on_a_task_that_may_not_be_there() -> None:
    _, manifest = part_of('step "sized/x" from "N", "by"', "\njob worker tasks 4\n")
    assert manifest.cluster is not None
    assert all(job.elastic for job in manifest.cluster.jobs)
    assert all(task == 0 for role in manifest.cluster.roles for task in role.tasks)
    assert any(not role.tasks for role in manifest.cluster.roles), "there is a program for tasks beyond the first"


@pytest.mark.parametrize(
    ("step", "title"),
    [
        ('step "train/loss" from "x"', "`train/loss` needs the feed y: f32[B, 3]"),
        ('step "train/loss" from "x", "y", "B"', "the shapes of what is fed decide B, if anything needs it"),
        ('step "sized/ramp"', "`sized/ramp` needs the size N, which no feed decides"),
        (
            'step "sized/next"',
            "`sized/next` is inside a loop, where it has many values or none: fetch `sized/k` instead",
        ),
        ('step "train/loss" from "y", "x", "train/x"', "`train` is fed x twice, as x and as train/x"),
    ],
)
def test_a_step_that_cannot_be_computed_is_refused_with_its_line(step: str, title: str) -> None:
    with pytest.raises(CompileError) as caught:
        cluster_bundle(PROGRAM, f"{JOBS}{step}\n")
    (message,) = caught.value.diagnostics
    assert (message.code, message.title) == ("E0814", title)
    assert f"7 | {step}" in render(message)


def test_check_reports_every_step_that_is_wrong(tmp_path) -> None:
    (tmp_path / "model.dfg").write_text(PROGRAM)
    path = tmp_path / "model.deploy"
    path.write_text(f'deploy 1 for "model.dfg"{JOBS}step "train/loss" from "x"\nstep "sized/ramp"\n')
    found = api.check(SourceFile(str(path), path.read_text()), {})
    assert [(each.code, each.span.line) for each in found] == [("E0814", 6), ("E0814", 7)]


def test_equal_inputs_give_equal_bundles() -> None:
    deploy = f'deploy 1 for "model.dfg"{JOBS}step "train/loss" from "x", "y"\n'

    def made() -> bytes:
        source = SourceFile("model.dfg", PROGRAM)
        return api.compile_source(source, CompileOptions(), SourceFile("/a/model.deploy", deploy)).to_bytes()

    assert made() == made()
