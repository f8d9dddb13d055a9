"""`dfc bench cnn`: its arguments are those of the guide, and each unknown value is answered with the legal ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.cli.networks.request import Request
from dfc.cli.networks.zoo import NETWORKS, program_of
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc_driver_cuda.driver import CudaDriver
from dfc_runtime.devices import no_driver
from tests.support.command_line import Command
from tests.support.quick_code import quick_code

TINY = ("--model", "overfeat", "--narrow", 32, "--image_size", 71, "--num_classes", 10, "--batch_size", 4)
SPREAD_HERE = ("--worker_hosts", "localhost:1,localhost:2", "--variable_update", "replicated")
SPREAD = ("--ps_hosts", "a:1,b:1", "--worker_hosts", "a:2,b:2")


def test_all_arguments_of_the_guide_are_accepted(dfc: Command) -> None:
    ended = dfc(
        "bench", "cnn", *TINY, *SPREAD, "--variable_update=parameter_server", "--local_parameter_device=cpu",
        "--num_gpus=0", "--nodistortions", "--use_nccl=False", "--job_name=worker", "--task_index=1", "--dry-run",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert [line.split() for line in lines[3:7]] == [
        ["0", "ps", "0", "a:1"],
        ["1", "ps", "1", "b:1"],
        ["2", "worker", "0", "a:2"],
        ["3", "worker", "1", "b:2", "this", "process"],
    ]
    (started,) = [line for line in lines if "mpiexec" in line]
    assert started.startswith("  mpiexec -hosts a,b,a,b -n 4 python -m mpi4py -m dfc bench cnn --model=overfeat ")
    assert "--use_nccl=False" in started
    assert "dry" not in started
    assert "job_name" not in started


def test_ranks_are_told_which_steps_there_are_and_the_deployment_says_it(dfc: Command) -> None:
    ended = dfc("bench", "cnn", *TINY, "--ps_hosts=a", "--worker_hosts=b,c", "--nocross_replica_sync", "--dry-run")
    (started,) = [line for line in ended.out.splitlines() if "mpiexec" in line]
    assert "--nocross_replica_sync" in started
    assert ended.out.endswith('mode = "async", split = "B", combine = "mean", blocks = 20\n')


def test_the_deployment_that_is_printed_is_accepted(dfc: Command) -> None:
    ended = dfc("bench", "cnn", *TINY, *SPREAD, "--dry-run")
    text = ended.out[ended.out.index("deploy 1") :]
    program = program_of(NETWORKS["overfeat"])
    assert [
        each for each in api.check(SourceFile(str(program.with_suffix(".deploy")), text), {}) if each.is_error
    ] == []
    assert text.count(" on ps task 0\n") and text.count(" on ps task 1\n")


@pytest.mark.parametrize(
    ("words", "legal"),
    [
        (("--model", "resnet"), list(NETWORKS)),
        (("--variable_update", "psr"), ["parameter_server", "replicated", "distributed_replicated", "independent"]),
        (("--local_parameter_device", "tpu"), ["cpu", "gpu"]),
        (("--job_name", "chief"), ["ps", "worker"]),
        (("--num_gpus", "-1"), ["x>=0"]),
        (("--use_nccl=maybe",), ["false", "true"]),
        (("--narrow", "65", "--model", "alexnet"), ["64 is most"]),
        (("--job_name", "worker"), ["--task_index"]),
        (("--job_name", "worker", "--task_index", "0"), ["--dry-run"]),
        (("--worker_hosts", "a.invalid,b.invalid", "--variable_update", "replicated"), ["a.invalid, b.invalid"]),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_legal(words: tuple[str, ...], legal: list[str], dfc: Command) -> None:
    ended = dfc("bench", "cnn", *words)
    assert ended.code == 2
    assert all(each in ended.message for each in legal), ended.err


def test_a_library_that_is_not_used_is_refused_with_what_adds_up_instead(dfc: Command) -> None:
    ended = dfc("bench", "cnn", "--use_nccl")
    assert (ended.code, ended.err.count("error[E1001]"), ended.err.count("by MPI")) == (3, 1, 1)
    assert "--nouse_nccl" in ended.err


def test_a_tiny_network_is_trained_and_its_rate_is_printed(dfc: Command) -> None:
    with quick_code():
        ended = dfc("bench", "cnn", *TINY, "--num_batches", 3, "--num_warmup_batches", 1, "--distortions", "--json")
    found = json.loads(ended.out)
    assert (found["model"], found["ranks"], found["devices"], found["batch_size"]) == ("overfeat", 1, 1, 4)
    assert found["distortions"] is True
    assert len(found["step_seconds"][0]) == 3
    assert found["images_per_second"] == pytest.approx(4 * 3 / sum(found["step_seconds"][0]))
    assert 1 < found["last_loss"][0] < 4


@pytest.mark.parametrize("words", [(), SPREAD_HERE], ids=["alone", "ranks"])
def test_a_folder_without_records_is_named_before_anything_is_compiled(
    words: tuple[str, ...], dfc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Request, "compiled", lambda _: pytest.fail("compiled"))
    ended = dfc("bench", "cnn", *TINY, *words, "--data_dir", tmp_path)
    assert (ended.code, ended.err.count("has no files *.rec or *.tfrecord")) == (6, 1)


@pytest.mark.parametrize("words", [(), SPREAD_HERE], ids=["alone", "ranks"])
def test_gpus_that_are_not_there_are_missed_before_anything_is_compiled(
    words: tuple[str, ...], dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bits(number: int) -> frozenset[str]:
        assert number == 0
        raise no_driver("it is gone")

    monkeypatch.setattr(Request, "compiled", lambda _: pytest.fail("compiled"))
    monkeypatch.setattr(CudaDriver, "bits", bits)
    ended = dfc("bench", "cnn", *TINY, *words, "--num_gpus", 1)
    assert (ended.code, ended.err.count("error[E0921]"), ended.err.count("or leave out --num_gpus")) == (3, 1, 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_its_file(name: str) -> None:
    assert program_of(NETWORKS[name]).is_file()
