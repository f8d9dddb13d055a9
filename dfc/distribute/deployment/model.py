"""What a deployment file says, as data. Made by the parser, read by whoever places, shards or replicates.

Assumes nothing of a program: names and globs are text here, and `resolve` finds what they mean. Guarantees that every
statement keeps the spans a message needs: the statement's own, and those of the parts that can be wrong by themselves.
"""

from __future__ import annotations

from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import NOWHERE, SourceFile, Span

Setting = int | float | bool | str
IN_STEP = ("sync", "staged", "mirrored")
"""Modes of replication in which all tasks run one step together."""
APART = ("async", "stale", "backup")
"""Modes in which each task computes steps of its own, and state is updated where it lies."""


@dataclass(frozen=True, slots=True)
class Option:
    """One `name = value` behind `with`."""

    name: str
    value: Setting
    span: Span


@dataclass(frozen=True, slots=True)
class Job:
    """`job worker tasks 32 with cpu = 8, gpu = 1, memory = "16 GB"`. `memory` is in bytes, per task; 0 is unlimited."""

    name: str
    tasks: int
    cpus: int
    gpus: int
    memory: int
    settings: tuple[Option, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Constraint:
    """Where something may be, in part: None leaves a part open. `device` is "cpu" or "gpu"; `number` one of its kind in
    the task (None: any)."""

    job: str | None
    task: int | None
    device: str | None
    number: int | None
    span: Span

    def __str__(self) -> str:
        words = list[str]() if self.job is None else [self.job]
        words += [] if self.task is None else [f"task {self.task}"]
        if self.device is not None:
            words.append(f"any {self.device}" if self.number is None else f"{self.device} {self.number}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class PlaceStatement:
    """`place "GLOB" on WHERE`."""

    glob: str
    where: Constraint
    glob_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Colocate:
    """`colocate "GLOB" with "NAME"`."""

    glob: str
    name: str
    glob_span: Span
    name_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Shard:
    """`shard "NAME" axis 0 over ps by modulo`; `rule` is modulo, blocks or hash."""

    name: str
    axis: int
    job: str
    rule: str
    name_span: Span
    job_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Replicate:
    """`replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8`.

    `mode` is one of `IN_STEP` or `APART`, or independent; `split` the dimension that is cut ("" where none is);
    `combine` mean or sum, which is left alone where the entry comes from one that was checked already, so that it is
    not `is_checked`; `blocks` how many pieces the whole is cut into, whatever the number of tasks. No task is more than
    `bound` steps ahead (-1: any number); so many `backups` of the tasks are not waited for."""

    entry: str
    job: str
    mode: str
    split: str
    combine: str
    blocks: int
    entry_span: Span
    job_span: Span
    span: Span
    settings: tuple[Option, ...] = ()
    is_checked: bool = True
    bound: int = -1
    backups: int = 0

    def setting_span(self, name: str) -> Span:
        """The span of one setting, or of the whole statement where it is not written."""
        return next((each.span for each in self.settings if each.name == name), self.span)


@dataclass(frozen=True, slots=True)
class Compress:
    """`compress worker to ps with format = "bf16"`: f32 on its way from a task of one job to one of the other."""

    source: str
    destination: str
    format: str
    span: Span


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`checkpoint every "10 min" to "FOLDER" with keep = 5`: either `seconds` or `steps` is set, the other 0."""

    seconds: float
    steps: int
    folder: str
    keep: int
    span: Span


@dataclass(frozen=True, slots=True)
class Step:
    """`step "train/logits", "train/loss" from "images"`: a part of an entry to precompile, by what is fetched
    and what is fed. The spans are those of the names, in their order."""

    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    fetch_spans: tuple[Span, ...]
    feed_spans: tuple[Span, ...]
    span: Span


@dataclass(slots=True)
class Deployment:
    """A deployment file; statements in their order."""

    source: SourceFile
    program: str
    program_span: Span = NOWHERE
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    placements: list[PlaceStatement] = field(default_factory=list[PlaceStatement])
    colocations: list[Colocate] = field(default_factory=list[Colocate])
    shards: list[Shard] = field(default_factory=list[Shard])
    replications: list[Replicate] = field(default_factory=list[Replicate])
    compressions: list[Compress] = field(default_factory=list[Compress])
    steps: list[Step] = field(default_factory=list[Step])
    checkpoint: Checkpoint | None = None

    @property
    def tasks(self) -> int:
        """How many ranks there are, as written."""
        return sum(job.tasks for job in self.jobs.values())


@dataclass(frozen=True, slots=True, order=True)
class TaskSite:
    """Where a node runs: a task of a job, or each task of it (`task` is None)."""

    job: str
    task: int | None = None

    def __str__(self) -> str:
        return self.job if self.task is None else f"{self.job}:{self.task}"
