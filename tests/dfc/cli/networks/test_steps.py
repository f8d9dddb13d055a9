"""How the steps of workers go together, by the options of the guide's script."""

from __future__ import annotations

import click
import pytest

from dfc.cli.networks.jobs import Jobs
from dfc.cli.networks.steps import Steps, check_steps, steps_of
from dfc.cli.networks.variables import deployment
from dfc_runtime.errors import UnsupportedError

ONE_SERVER = Jobs(("a",), ("b", "c", "d"), 0)
ASYNC, BACKUP, STAGED = Steps("async", 0, 10), Steps("backup", 1, 10), Steps("staged")


def options(
    *, staged: bool = False, synchronous: bool = True, backups: int = 0, count: int = 100, warm_up: int = 10
) -> Steps:
    return steps_of(is_staged=staged, is_synchronous=synchronous, backups=backups, count=count, warm_up=warm_up)


def test_each_option_is_a_mode() -> None:
    assert (options(), options(staged=True)) == (Steps(), STAGED)
    assert (options(synchronous=False), options(backups=1)) == (ASYNC, BACKUP)


@pytest.mark.parametrize(("count", "warm_up", "steps"), [(8, 2, 2), (3, 0, 3), (3, 1, 1), (44, 0, 4), (30, 20, 10)])
def test_calls_without_a_common_step_divide_all_steps(count: int, warm_up: int, steps: int) -> None:
    assert options(synchronous=False, count=count, warm_up=warm_up).in_a_call == steps


def test_options_that_exclude_each_other_are_named() -> None:
    with pytest.raises(click.UsageError, match="--nocross_replica_sync and --backup_workers exclude each other"):
        options(synchronous=False, backups=1)
    with pytest.raises(click.UsageError, match="--staged_vars and --nocross_replica_sync exclude each other"):
        options(staged=True, synchronous=False)


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (ASYNC, 'mode = "async", split = "B", combine = "mean", blocks = 30'),
        (BACKUP, 'mode = "backup", split = "B", combine = "mean", backups = 1, blocks = 30'),
    ],
)
def test_one_server_has_all_state_where_there_is_no_common_step(steps: Steps, line: str) -> None:
    jobs = "job ps     tasks 1\njob worker tasks 3\n"
    text = f'deploy 1 for "x.dfg"\n\n{jobs}\nreplicate train over worker with {line}\n'
    assert deployment("parameter_server", steps, ONE_SERVER, "x.dfg", {}) == text


def test_staged_variables_lie_where_others_do_also_on_one_rank() -> None:
    text = deployment("parameter_server", STAGED, ONE_SERVER, "x.dfg", {"w": 4})
    assert 'place "w" on ps task 0\n' in text
    assert text.endswith('mode = "staged", split = "B", combine = "mean", blocks = 3\n')
    alone = deployment("replicated", STAGED, Jobs((), ("a",), 0), "x.dfg", {})
    assert alone.endswith('mode = "staged", split = "B", combine = "mean", blocks = 1\n')


@pytest.mark.parametrize(
    ("steps", "mode", "jobs", "words"),
    [
        (STAGED, "independent", ONE_SERVER, "nothing is sent"),
        (STAGED, "distributed_replicated", ONE_SERVER, "copies of their own"),
        (ASYNC, "replicated", ONE_SERVER, "one host in --ps_hosts"),
        (ASYNC, "parameter_server", Jobs(("a", "b"), ("c",), 0), "one host in --ps_hosts"),
        (BACKUP, "parameter_server", Jobs((), ("a",), 0), "^--backup_workers: one parameter server"),
        (BACKUP, "parameter_server", Jobs(("a",), ("b",), 0), "of 1 worker one at least"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(steps: Steps, mode: str, jobs: Jobs, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        check_steps(steps, mode, jobs)


def test_what_goes_together_is_accepted_and_gpus_are_not_yet() -> None:
    for steps in (ASYNC, BACKUP, STAGED, Steps()):
        check_steps(steps, "parameter_server", ONE_SERVER)
    with pytest.raises(UnsupportedError, match="--nocross_replica_sync with --num_gpus"):
        check_steps(ASYNC, "parameter_server", Jobs(("a",), ("b",), 1))
