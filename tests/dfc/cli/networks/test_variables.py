"""Where variables lie, by the modes of the guide."""

from __future__ import annotations

import click
import pytest

from dfc.cli.networks.jobs import Jobs
from dfc.cli.networks.steps import Steps
from dfc.cli.networks.variables import check, deployment, owners
from dfc_runtime.errors import UnsupportedError

ONE = Jobs((), ("localhost",), 0)
SPREAD = Jobs(("a", "b"), ("c", "d"), 0)


def test_variables_are_dealt_out_by_size_and_listed_in_their_order() -> None:
    assert owners({"a": 1, "b": 9, "c": 4, "d": 4}, 2) == {"a": 1, "b": 0, "c": 1, "d": 1}
    assert list(owners({"a": 1, "b": 9}, 2)) == ["a", "b"]
    assert owners({"a": 1}, 0) == {}


def test_servers_own_the_variables_and_workers_compute() -> None:
    assert deployment("parameter_server", Steps(), SPREAD, "x.dfg", {"w": 8, "b": 4}) == (
        'deploy 1 for "x.dfg"\n\njob ps     tasks 2\njob worker tasks 2\n\nplace "**" on worker\n'
        'place "w" on ps task 0\nplace "b" on ps task 1\n\n'
        'replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2\n'
    )


def test_copies_are_beside_the_variables_of_servers() -> None:
    text = deployment("distributed_replicated", Steps(), SPREAD, "x.dfg", {"w": 8})
    apart = deployment("parameter_server", Steps(), SPREAD, "x.dfg", {"w": 8})
    assert text == apart.replace('"sync"', '"mirrored"')


def test_replicas_have_all_variables_on_their_gpus() -> None:
    text = deployment("replicated", Steps(), Jobs((), ("a", "b"), 2), "x.dfg", {})
    assert "job worker tasks 4 with gpu = 1\n" in text
    assert 'place "**" on worker any gpu\n' in text
    assert "ps" not in text
    assert "blocks = 4" in text


@pytest.mark.parametrize(("mode", "jobs"), [("independent", Jobs((), ("a", "b"), 0)), ("parameter_server", ONE)])
def test_programs_that_share_nothing_have_no_deployment(mode: str, jobs: Jobs) -> None:
    assert deployment(mode, Steps(), jobs, "x.dfg", {}) == ""


@pytest.mark.parametrize(
    ("mode", "jobs", "local", "words"),
    [
        ("replicated", SPREAD, None, "leave --ps_hosts out"),
        ("distributed_replicated", ONE, None, "add --ps_hosts, or use replicated"),
        ("independent", SPREAD, None, "leave --ps_hosts out"),
        ("parameter_server", Jobs((), ("a:1", "b:1"), 0), None, "add --ps_hosts a$"),
        ("parameter_server", Jobs((), ("[::1]:1", "b:1"), 0), None, r"add --ps_hosts \[::1\]$"),
        ("parameter_server", Jobs((), ("localhost",), 3), None, "add --ps_hosts localhost --worker_hosts localhost$"),
        ("parameter_server", Jobs(("a:1",), (), 0), None, "nobody would compute: add --worker_hosts a$"),
        ("parameter_server", ONE, "gpu", "--num_gpus is 0"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(mode: str, jobs: Jobs, local: str | None, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        check(mode, jobs, local)


@pytest.mark.parametrize(
    ("mode", "jobs", "local"),
    [
        ("parameter_server", Jobs(("a",), ("b",), 1), "gpu"),
        ("parameter_server", Jobs((), ("a",), 1), "cpu"),
    ],
)
def test_what_is_missing_is_said(mode: str, jobs: Jobs, local: str | None) -> None:
    with pytest.raises(UnsupportedError) as raised:
        check(mode, jobs, local)
    assert raised.value.code == "E1001"


@pytest.mark.parametrize(
    ("mode", "jobs", "local"),
    [
        ("parameter_server", ONE, None),
        ("parameter_server", ONE, "cpu"),
        ("parameter_server", Jobs((), ("a",), 1), "gpu"),
        ("parameter_server", SPREAD, "cpu"),
        ("distributed_replicated", SPREAD, None),
        ("replicated", Jobs((), ("a",), 4), "gpu"),
        ("independent", Jobs((), ("a", "b"), 0), None),
    ],
)
def test_what_goes_together_is_accepted(mode: str, jobs: Jobs, local: str | None) -> None:
    check(mode, jobs, local)
