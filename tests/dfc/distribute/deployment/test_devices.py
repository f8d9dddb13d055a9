"""Device names, in words and in parts, full and partial."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import render
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.syntax.parse import parse
from tests.support.deploying import HEAD, deployed

JOBS = HEAD + "job ps tasks 4 with cpu = 8\njob worker tasks 20 with gpu = 4\n"
GOOD: dict[str, tuple[str | None, int | None, str | None, int | None]] = {
    "ps": ("ps", None, None, None),
    "ps task 3": ("ps", 3, None, None),
    "ps task 3 any cpu": ("ps", 3, "cpu", None),
    "ps task 3 cpu 7": ("ps", 3, "cpu", 7),
    "worker gpu 0": ("worker", None, "gpu", 0),
    "worker cpu": ("worker", None, "cpu", None),
    "any gpu": (None, None, "gpu", None),
    "gpu 3": (None, None, "gpu", 3),
    "cpu": (None, None, "cpu", None),
    '"/job:worker/task:17/device:gpu:3"': ("worker", 17, "gpu", 3),
    '"/job:worker/task:17/device:gpu:*"': ("worker", 17, "gpu", None),
    '"/job:worker/task:17/device:gpu"': ("worker", 17, "gpu", None),
    '"/job:worker/task:17"': ("worker", 17, None, None),
    '"/job:worker/task:*"': ("worker", None, None, None),
    '"/job:ps"': ("ps", None, None, None),
    '"/job:ps/device:cpu:0"': ("ps", None, "cpu", 0),
    '"/task:3"': (None, 3, None, None),
    '"/device:cpu:*"': (None, None, "cpu", None),
    '"/task:19/device:gpu:1"': (None, 19, "gpu", 1),
}
BAD = {
    "workers": ("E0805", "did you mean `worker`?"),
    "pz task 1": ("E0805", "there is no job `pz`"),
    "tpu": ("E0805", "neither a job nor a kind of device"),
    "ps tpu 0": ("E0182", "the kinds are cpu and gpu"),
    "any tpu": ("E0182", "`tpu` is no kind of device"),
    "ps 3": ("E0182", "write `ps task 3`"),
    "ps task 4": ("E0806", "they are numbered 0 to 3"),
    "ps cpu 8": ("E0806", "`ps` has 8 cpus in each task"),
    "worker cpu 1": ("E0806", "they are numbered 0"),
    "gpu 4": ("E0806", "`worker` has 4 gpus in each task"),
    '"/task:20"': ("E0806", "there is no task 20"),
    '"/job:worker/task:17/device:gpu:4"': ("E0806", "there is no gpu 4"),
    '"/job:pss/task:0"': ("E0805", "there is no job `pss`"),
    '""': ("E0182", "it has no parts"),
    '"/"': ("E0182", "it has no parts"),
    '"job:ps"': ("E0182", "it begins with `/`"),
    '"/jobs:ps"': ("E0182", "did you mean `job`?"),
    '"/job:ps/"': ("E0182", "is none of job, task and device"),
    '"/job:"': ("E0182", "a job has a name"),
    '"/job:ps/task:x"': ("E0182", "a task has a number"),
    '"/job:ps/task:-1"': ("E0182", "a task has a number"),
    '"/task:1/job:ps"': ("E0182", "the order is job, task, device"),
    '"/job:ps/job:ps"': ("E0182", "`job` is given twice"),
    '"/device:GPU:0"': ("E0182", "the kinds are cpu and gpu"),
    '"/device:gpu:"': ("E0182", "a device has a number"),
    '"/gpu:0"': ("E0182", "is none of job, task and device"),
}


@pytest.mark.parametrize("where", GOOD)
def test_a_device_name_is_a_constraint(where: str) -> None:
    made = deployed(f'{JOBS}place "table" on {where}\n').placements[0].where
    assert (made.job, made.task, made.device, made.number) == GOOD[where]
    assert made.span.text == where


@pytest.mark.parametrize("where", BAD)
def test_a_bad_device_name_is_one_message_at_its_place(where: str) -> None:
    made, found = parse(SourceFile("x.deploy", f'{JOBS}place "table" on {where}\n'))
    assert made is None
    assert [each.code for each in found] == [BAD[where][0]]
    assert BAD[where][1] in render(found[0])
    assert found[0].span.text in where


def test_a_job_may_have_the_name_of_a_kind_of_device() -> None:
    made = deployed(f'{HEAD}job gpu tasks 2\nplace "table" on gpu\nplace "bias" on gpu task 1\n')
    assert [(each.where.job, each.where.device) for each in made.placements] == [("gpu", None), ("gpu", None)]
