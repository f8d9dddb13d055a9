"""What is divided over the tasks of a job, and what a divided program needs to know, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Shard, TaskSite
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Division:
    """`rows` rows over the tasks of a job; each has memory for `most`. `rule` is modulo, blocks or hash."""

    job: str
    rule: str
    rows: int
    tasks: int

    @property
    def most(self) -> int:
        return -(-self.rows // self.tasks)

    @property
    def is_even(self) -> bool:
        """Whether all tasks have as many rows."""
        return self.rows % self.tasks == 0

    @property
    def site(self) -> TaskSite:
        return TaskSite(self.job)

    def can_split(self, size: Dim) -> bool:
        """Whether an axis of this size is one of rows."""
        return size == dim(self.rows)

    def can_start(self, node: Node, size: Dim) -> bool:
        """The same for what is made of nothing that is divided."""
        del node
        return self.can_split(size)


@dataclass(frozen=True, slots=True)
class Sharded:
    """A piece of state of so many axes that is divided along one of them."""

    division: Division
    axis: int
    rank: int
    statement: Shard


@dataclass(frozen=True, slots=True)
class RowEdge:
    """Messages of ids or rows: from each task of a job (or one, `job:task`) to others."""

    key: str
    source: str
    destinations: tuple[str, ...]
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Caller:
    """Where an entry uses rows: `site`. In one that is replicated, values whose size mentions `count` are the task's
    own (its blocks, of `blocks` in all)."""

    site: TaskSite
    count: Symbol | None = None
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class ResultRows:
    """A result of which each owner gives the rows that it has, along an axis: in memory with room for the most."""

    division: Division
    axis: int


@dataclass(slots=True)
class ShardedGraph:
    """A graph whose state is divided: `sites` has those of nodes that cannot be elsewhere, by name;
    `edges` are those of ids and rows, `combined` those of what the owners make together. `results` come by rows, by
    entry and name."""

    graph: Graph
    sharded: Mapping[str, Sharded]
    sites: dict[str, TaskSite] = field(default_factory=dict[str, TaskSite])
    edges: list[RowEdge] = field(default_factory=list[RowEdge])
    combined: list[RowEdge] = field(default_factory=list[RowEdge])
    results: dict[str, Mapping[str, ResultRows]] = field(default_factory=dict[str, "Mapping[str, ResultRows]"])
