"""Hosts and jobs of the guide as ranks of MPI.

The guide starts each process by hand, with its job and its number. Here one command starts them all, and ranks are
numbered through the jobs of the deployment in its order: parameter servers first, then workers, each worker's GPUs one
after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from dfc.deferred.dataclasses import dataclass

_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?")
HIGHEST_PORT = 65_535
HERE = "localhost"
JOBS = ("ps", "worker")


@dataclass(frozen=True, slots=True)
class Process:
    """One rank: its job, its number there, and the host (with the port of the guide, which MPI does not need)."""

    job: str
    task: int
    host: str


@dataclass(frozen=True, slots=True)
class Jobs:
    """Who takes part. `servers` and `workers` are hosts; `gpus` is how many GPUs each worker has, 0 for a processor.
    A worker has a rank for each of its GPUs."""

    servers: tuple[str, ...]
    workers: tuple[str, ...]
    gpus: int

    @property
    def devices(self) -> int:
        """How many parts of a batch are trained on at once."""
        return len(self.workers) * max(self.gpus, 1)

    @property
    def processes(self) -> list[Process]:
        """All ranks, by their numbers."""
        of_worker = max(self.gpus, 1)
        servers = [Process("ps", number, host) for number, host in enumerate(self.servers)]
        workers = [host for host in self.workers for _ in range(of_worker)]
        return [*servers, *(Process("worker", number, host) for number, host in enumerate(workers))]

    def rank_of(self, job: str, index: int) -> int:
        """The first rank of a process of the guide. `UsageError` if there is no such process."""
        hosts = {"ps": self.servers, "worker": self.workers}[job]
        if not 0 <= index < len(hosts):
            known = f"from 0 to {len(hosts) - 1}" if hosts else f"none: there are no --{job}_hosts"
            raise click.UsageError(f"--task_index {index}: the tasks of {job!r} are {known}")
        return index if job == "ps" else len(self.servers) + index * max(self.gpus, 1)


def hosts_of(text: str | None, option: str) -> tuple[str, ...]:
    """`a:5000,b:5000` as hosts, with their ports. `UsageError` for what is none."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        match = _HOST.fullmatch(part)
        if match is None or int(match["port"] or 0) > HIGHEST_PORT:
            raise click.UsageError(f"{option}: {part!r} is no HOST or HOST:PORT; divide several by commas")
    for part in parts:
        if parts.count(part) > 1 and ":" in part:
            raise click.UsageError(f"{option} names {part} twice; each process has a port of its own")
    return tuple(parts)


def name_of(host: str) -> str:
    """A host without its port."""
    match = _HOST.fullmatch(host)
    return match["host"] if match else host


def elsewhere(hosts: Sequence[str], own: Sequence[str]) -> list[str]:
    """Those that are not this machine, each once."""
    names = dict.fromkeys(name_of(host) for host in hosts)
    return [name for name in names if name not in own]
