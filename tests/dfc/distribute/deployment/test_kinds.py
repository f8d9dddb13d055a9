"""What tasks work on: the lines that name a device, and what follows them."""

from __future__ import annotations

import pytest

from dfc.cli.reports import placement
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.driver import api
from dfc.driver.many_ranks import options_on
from dfc.elaborate import build
from dfc.ir.options import CompileOptions, TargetOptions
from tests.support.deploying import HEAD, diagnosed, resolved

JOBS = f"{HEAD}job ps tasks 2\njob worker tasks 4 with gpu = 2\n"


def device(lines: str, job: str, task: int | None = None) -> Device:
    return resolved(JOBS + lines).devices.of(job, task)


def test_without_a_line_a_task_works_on_its_processors() -> None:
    assert device('place "train/**" on worker\n', "worker") == ON_CPU


def test_a_line_with_a_gpu_holds_for_all_of_the_task() -> None:
    lines = 'place "train/x" on worker any gpu\n'
    assert device(lines, "worker") == Device("gpu", 0)
    assert device(lines, "ps") == ON_CPU


def test_a_gpu_has_a_number() -> None:
    assert device('place "train/x" on worker gpu 1\n', "worker") == Device("gpu", 1)
    assert device('place "train/x" on "/job:worker/device:gpu:1"\n', "worker") == Device("gpu", 1)


def test_tasks_of_a_job_may_work_on_different_devices() -> None:
    lines = 'place "train/x" on worker task 1 gpu 1\nplace "train/noise" on worker task 2 cpu 0\n'
    lines = lines.replace("train/noise", "train/loss")
    assert device(lines, "worker", 1) == Device("gpu", 1)
    assert device(lines, "worker", 2) == ON_CPU
    assert device(lines, "worker", 0) == ON_CPU


def test_a_kind_of_device_alone_is_about_the_first_job_that_has_it() -> None:
    lines = 'place "train/x" on any gpu\nplace "train/loss" on any cpu\n'
    found = resolved(JOBS + lines)
    assert found.devices.of("worker", None) == Device("gpu", 0)
    settled = {
        name: found.devices.with_job(ruling.constraint).job for name, ruling in found.resolved_constraints.items()
    }
    assert {"ps", "worker"} == {job for job in settled.values() if job}


def test_where_nothing_is_on_a_gpu_any_cpu_leaves_the_job_open() -> None:
    found = resolved(f'{JOBS}place "train/loss" on any cpu\n')
    assert {found.devices.with_job(ruling.constraint).job for ruling in found.resolved_constraints.values()} == {None}


@pytest.mark.parametrize(
    ("first", "second", "task", "said"),
    [
        ("worker any gpu", "worker any cpu", None, "gpu 0, cpu"),
        ("worker gpu 1", "worker gpu 0", None, "gpu 0, gpu 1"),
        ("worker any gpu", "worker gpu 1", None, "gpu 1"),
        ("worker task 1 gpu 0", "worker any cpu", 1, "gpu 0, cpu"),
        ("worker task 1 gpu 0", "worker any cpu", None, "cpu"),
    ],
)
def test_a_task_works_on_all_devices_that_its_lines_name(first: str, second: str, task: int | None, said: str) -> None:
    devices = resolved(f'{JOBS}place "train/x" on {first}\nplace "train/loss" on {second}\n').devices
    assert ", ".join(map(str, devices.in_play("worker", task))) == said


def test_a_line_leaves_open_what_it_does_not_say() -> None:
    lines = (
        'place "train/x" on worker any gpu\nplace "train/noise" on worker gpu 1\nplace "train/loss" on worker gpu 0\n'
    )
    found = resolved(JOBS + lines)

    def allowed(name: str) -> list[str]:
        asked = found.devices.with_job(found.resolved_constraints[name].constraint)
        return [str(each) for each in found.devices.allowed(asked, "worker", None)]

    assert (allowed("train/x"), allowed("train/noise")) == (["gpu 0", "gpu 1"], ["gpu 1"])


def test_what_the_host_does_cannot_be_asked_for_on_a_gpu() -> None:
    program = "dfg 1\n\nentry f() -> (at: i64) {\n  let now = clock()\n  return now\n}\n"
    graph = build.build(SourceFile("skipgram.dfg", program), {})
    (found,) = diagnosed(f'{JOBS}place "f/now" on worker gpu 1\n', graph)
    assert (found.code, found.title) == ("E0811", "`f/now` cannot be on a gpu: it is done by the host")
    assert found.helps[0] == 'place "f/now" on worker any cpu'
    assert diagnosed(f'{JOBS}place "f/**" on worker gpu 1\n', graph) == []


def test_any_gpu_and_the_first_one_are_the_same() -> None:
    assert device('place "train/x" on worker any gpu\nplace "train/loss" on worker gpu 0\n', "worker").number == 0


def test_a_role_is_compiled_for_what_it_works_on() -> None:
    asked = CompileOptions(target_options=TargetOptions(("x86-64-v3", "sm_90", "compute_80")))
    there, here = options_on(Device("gpu", 1), asked), options_on(ON_CPU, asked)
    assert (there.target, there.target_options.isas) == ("cuda", ("sm_90", "compute_80"))
    assert (here.target, here.target_options.isas) == ("cpu", ("x86-64-v3",))


def test_the_placement_says_which_gpu() -> None:
    program = "dfg 1\n\nparam w: f32[4] = 0\n\nentry f(x: f32[4]) -> (y: f32) {\n  return sum(x * w)\n}\n"
    deploy = 'deploy 1 for "model.dfg"\n\njob worker tasks 1 with gpu = 2\n\nplace "f/**" on worker gpu 1\n'
    deploy = deploy.replace("\n\nplace", "\njob spare tasks 1 with gpu = 1\n\nplace") + 'place "idle" on spare\n'
    program += "\nvar idle: i64 = 0\n\nentry g() {\n  idle += 1\n}\n"
    report, _ = api.place(SourceFile("model.dfg", program), CompileOptions(), SourceFile("model.deploy", deploy))
    assert [(each.role, list(map(str, each.devices)), each.lines) for each in report.devices] == [
        ("worker-0", ["gpu 1"], (6,)),
        ("spare-0", ["cpu"], ()),
    ]
    told = placement.as_text(report)
    assert (
        "  worker-0  gpu 1     model.deploy:6\n  spare-0   cpu       no line places anything of it on a gpu\n" in told
    )
    devices = {str(row.device) for row in (*report.state, *report.entries[0].rows) if row.site.job == "worker"}
    assert devices == {"gpu 1"} and "worker:0 gpu 1" in told
