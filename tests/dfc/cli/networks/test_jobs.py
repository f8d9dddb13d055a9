"""Hosts and jobs of the guide as ranks."""

from __future__ import annotations

import click
import pytest

from dfc.cli.networks.jobs import Jobs, Process, elsewhere, hosts_of


def test_ranks_are_servers_then_workers_then_their_gpus() -> None:
    jobs = Jobs(("a:1", "b:1"), ("a:2", "b:2"), 2)
    assert jobs.processes == [
        Process("ps", 0, "a:1"),
        Process("ps", 1, "b:1"),
        Process("worker", 0, "a:2"),
        Process("worker", 1, "a:2"),
        Process("worker", 2, "b:2"),
        Process("worker", 3, "b:2"),
    ]
    assert jobs.devices == 4
    assert [jobs.rank_of("ps", 1), jobs.rank_of("worker", 0), jobs.rank_of("worker", 1)] == [1, 2, 4]


def test_a_processor_is_one_device() -> None:
    assert Jobs((), ("a", "b", "c"), 0).devices == 3
    assert [each.task for each in Jobs((), ("a", "b", "c"), 0).processes] == [0, 1, 2]


@pytest.mark.parametrize(
    ("index", "words"),
    [(2, "from 0 to 1"), (-1, "from 0 to 1")],
)
def test_a_task_that_is_not_there_is_refused(index: int, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        Jobs(("a",), ("b", "c"), 0).rank_of("worker", index)
    with pytest.raises(click.UsageError, match="there are no --ps_hosts"):
        Jobs((), ("b",), 0).rank_of("ps", 0)


def test_hosts_are_names_and_addresses_with_ports_or_without() -> None:
    assert hosts_of("a.b-c:50000, 10.0.0.1,[::1]:5", "--ps_hosts") == ("a.b-c:50000", "10.0.0.1", "[::1]:5")
    assert hosts_of(None, "--ps_hosts") == ()
    assert hosts_of("a,a", "--ps_hosts") == ("a", "a")


@pytest.mark.parametrize("text", ["", "a,,b", "a:x", "a:65536", "a b", "a:1,a:1", "/job:ps"])
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--ps_hosts"):
        hosts_of(text, "--ps_hosts")


def test_hosts_that_are_elsewhere_are_named_once_without_ports() -> None:
    assert elsewhere(["localhost:1", "a:1", "a:2", "[::1]:3"], ["localhost", "[::1]"]) == ["a"]
