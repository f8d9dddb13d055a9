"""The section of a manifest that says how a program is distributed over ranks: jobs, roles, edges, participants.

A bundle with this section holds one whole bundle for each role, as the tensor `role/<name>`; its own entries are
signatures without code. Precompiled parts of entries are whole bundles for many ranks, `part/<number>`;
the text of the deployment file is the tensor `deployment`.

Assumes nothing of the bytes it is read from. Guarantees that every name it mentions is known: roles of jobs, entries of
the manifest, edges between tasks that exist as written.
"""

from __future__ import annotations

from dfc_runtime.calls.formulas import Formula, constant
from dfc_runtime.dataclasses import dataclass

ONE = constant(1)
ROLE = "role/"
"""A whole inner bundle is the tensor of this name and that of its role."""
PART = "part/"
DEPLOYMENT = "deployment"
EDGE_KINDS = ("value", "combination", "rows", "updates")
STEP_KINDS = ("save", "restore")
SHARD_RULES = ("modulo", "blocks", "hash")


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """`tasks` as written; `elastic` says that the number may be another at start, because nothing fixed depends on it
    (with blocks, it may be any number up to that of the blocks)."""

    name: str
    tasks: int
    elastic: bool


@dataclass(frozen=True, slots=True)
class ClusterRole:
    """An inner bundle, and its tasks of a job; empty `tasks` are all tasks that no other role of the job has."""

    name: str
    job: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterEdge:
    """One kind of message. `kind` is value, combination or rows; source and destinations are `job` or `job:task`.

    The tag of its messages is its number in the manifest's list. `name` is the full name of the value, `line` its place
    in the source, for reports."""

    key: str
    kind: str
    source: str
    destinations: tuple[str, ...]
    name: str
    location: str


@dataclass(frozen=True, slots=True)
class FeedPart:
    """A parameter of an entry, and the roles that need it. `split_axis` is the axis cut into blocks, or -1: blocks
    stand in their order in each of the `runs` along it. What a task gets has its blocks along a new axis in front."""

    name: str
    roles: tuple[str, ...]
    split_axis: int
    runs: Formula = ONE


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A result of an entry: it comes from `source` (`job:task`), or in pieces along `split_axis` from each task of the
    job `source`: blocks in their order in each of the `runs`; what a task gives has its blocks along a new axis in
    front. With a `rule` (modulo, blocks, hash) these pieces are rows of what is sharded: what a task gives has room
    for the most rows that any of them has."""

    name: str
    source: str
    split_axis: int
    runs: Formula = ONE
    rule: str = ""

    @property
    def in_blocks(self) -> bool:
        """Whether tasks give blocks of it."""
        return self.split_axis >= 0 and not self.rule


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    """What an entry does: `kind` is save or restore, `feed` the text that says where, `state` the full names."""

    kind: str
    feed: str
    state: tuple[str, ...]


COMBINES = ("mean", "sum")


@dataclass(frozen=True, slots=True)
class CombineCheck:
    """What the compiler could not see of a replicated entry: whether its `gradients`, values of a precompiled
    part, are a mean over the batch or a sum, as `combine` says at that `location`. The first call
    finds out."""

    combine: str
    gradients: tuple[str, ...]
    location: str


MODES = ("async", "stale", "backup")
FIRST, MEAN, SUM = HANDED = ("first", "mean", "sum")
UPDATES = "updates"
"""The name of the edge of an entry whose replicas take steps of their own: its own, and this behind a slash."""


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """How steps that replicas take by themselves reach state: `entry` is that of the role of `owner` (`job:task`),
    which has all of it. Behind the feeds of an entry its replicas are fed the `variables`; behind its results comes
    what the update is fed. Results without an axis that is cut are a mean or a sum over steps, as `combine` says.

    No task is more than `bound` steps ahead (-1: there is no bound). With `backups` all tasks take each step, and all
    but so many are waited for: `handed` says what becomes of each value that they hand over. Where steps take from
    queues, the owner calls `take` for each, and replicas are fed its results `taken` before the variables."""

    mode: str
    entry: str
    owner: str
    variables: tuple[str, ...]
    combine: str
    bound: int = -1
    backups: int = 0
    handed: tuple[str, ...] = ()
    take: str = ""
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """How a call of an entry is distributed. `roles` take part; `blocks` is 0 where nothing is split; `split` names the
    dimension that is, which for the roles means the size of one block. `count` and `first` name the sizes that tell a
    task how many blocks it has, and the number of the first of them. An entry with `steps` does nothing else and has no
    roles."""

    name: str
    roles: tuple[str, ...]
    replicated_over: str
    split: str
    blocks: int
    feeds: tuple[FeedPart, ...]
    results: tuple[ResultPart, ...]
    count: str = "NB"
    first: str = "FIRST"
    steps: tuple[CheckpointStep, ...] = ()
    check: CombineCheck | None = None
    update: ClusterUpdate | None = None

    @property
    def updates(self) -> str:
        """The key of the messages of steps."""
        return f"{self.name}/{UPDATES}"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Where a piece of state lives: `site` is `job` (a copy in every task) or `job:task`; sharded state lies in rows
    over all tasks of a job, by `rule` (modulo, blocks, hash) along `axis`; `rule` is "" where it is whole."""

    name: str
    site: str
    rule: str = ""
    axis: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Periodic saving: every so many seconds, or steps (the other is 0)."""

    seconds: float
    steps: int
    folder: str
    keep: int


@dataclass(frozen=True, slots=True)
class PartFeed:
    """A value that a part is fed: all names for it, the one that was written first, and the parameter it is."""

    names: tuple[str, ...]
    parameter: str


@dataclass(frozen=True, slots=True)
class PrecompiledPart:
    """A precompiled part of an entry: all names for each fetched value, the one that was written first."""

    fetches: tuple[tuple[str, ...], ...]
    feeds: tuple[PartFeed, ...]

    def __str__(self) -> str:
        fed = ", ".join(each.names[0] for each in self.feeds)
        return ", ".join(names[0] for names in self.fetches) + (f" from {fed}" if fed else "")


@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """Working memory of an entry in a role, in bytes over the sizes of the role's entry: with each receive right before
    its first use, as it is; and as it would be with all of them at the start, if it has any."""

    role: str
    entry: str
    delayed: Formula
    early: Formula | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """`parts` are precompiled; `deployment` is the name of the deployment file whose text the bundle has, "" for a
    bundle without it; `memory` is for whoever reads it."""

    jobs: tuple[ClusterJob, ...]
    roles: tuple[ClusterRole, ...]
    edges: tuple[ClusterEdge, ...]
    entries: tuple[ClusterEntry, ...]
    state: tuple[ClusterState, ...]
    compressed: tuple[tuple[str, str], ...] = ()
    checkpoint: CheckpointPolicy | None = None
    parts: tuple[PrecompiledPart, ...] = ()
    deployment: str = ""
    memory: tuple[ClusterMemory, ...] = ()


def site(text: str) -> tuple[str, int | None]:
    """The job and the task of `job` or `job:task`; `ValueError` if it is neither."""
    job, colon, task = text.partition(":")
    if not colon:
        return job, None
    if not task.isascii() or not task.isdigit() or len(task) > 9:
        raise ValueError(f"{text[:48]!r} is no task")
    return job, int(task)
