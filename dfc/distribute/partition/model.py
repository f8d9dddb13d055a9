"""The parts of a partitioned program, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.partition.checkpoints import CheckpointStep
from dfc.ir.graph import Graph


@dataclass(frozen=True, slots=True, order=True)
class RankRole:
    """Tasks that run one graph: one task of a job, or all tasks of it that are no role of their own."""

    job: str
    task: int | None = None

    @property
    def name(self) -> str:
        return self.job if self.task is None else f"{self.job}-{self.task}"

    def runs(self, site: TaskSite | None) -> bool:
        """Whether what is at `site` (None: everywhere) is here."""
        return site is None or (site.job == self.job and site.task in (None, self.task))


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that crosses: from a task (`job:task`) to jobs or tasks. `key` is the same on both sides."""

    key: str
    source: str
    destinations: tuple[str, ...]
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class EntryParts:
    """How an entry is distributed: the roles that take part, which of them need each feed, and the task (`job:task`)
    each result comes from. One that only saves and restores has `steps`, and no role."""

    roles: tuple[RankRole, ...]
    feeds: Mapping[str, tuple[RankRole, ...]]
    results: Mapping[str, str]
    steps: tuple[CheckpointStep, ...] = ()


@dataclass(slots=True)
class RankGraphs:
    """A graph for each role, in the order of ranks. `outer` are keys of messages with others than these roles."""

    tasks: Mapping[str, int]
    graphs: dict[RankRole, Graph] = field(default_factory=dict[RankRole, Graph])
    edges: list[Edge] = field(default_factory=list[Edge])
    entries: dict[str, EntryParts] = field(default_factory=dict[str, EntryParts])
    outer: frozenset[str] = frozenset()

    def role_of(self, job: str, task: int) -> RankRole:
        """The role of a task."""
        own = RankRole(job, task)
        return own if own in self.graphs else RankRole(job)


def roles_of(tasks: Mapping[str, int], sites: Sequence[TaskSite]) -> tuple[RankRole, ...]:
    """The roles that sites make: a task that something is placed on by number is one of its own."""
    roles: list[RankRole] = []
    for job, count in tasks.items():
        own = sorted({site.task for site in sites if site.job == job and site.task is not None})
        roles += [RankRole(job, task) for task in own]
        if len(own) < count:
            roles.append(RankRole(job))
    return tuple(roles)


def first_task(site: TaskSite) -> str:
    """The task that speaks for a site."""
    return f"{site.job}:{site.task or 0}"
