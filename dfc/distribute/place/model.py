"""What placement is asked and what it answers, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import Constraint, TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.ir.dims import Symbol
from dfc.ir.graph import Node


@dataclass(frozen=True, slots=True)
class PlacementConstraints:
    """What a deployment file asks for, names resolved.

    `tasks`: tasks of each job, in the order of ranks. `memory`: bytes per task of a job (0 or absent: no limit).
    `state` and `values`: constraints by full name. `together`: the group of each name of state and values that share a
    site with others. `replicated`: the job each replicated entry runs on. `fixed`: sites of state and nodes that cannot
    be elsewhere, by full name; `because` why, in words, where that is not for divided rows. `counts`: the size
    that says how many blocks a task has, for entries cut into blocks. `elastic`: jobs that may have another number of
    tasks at start, so that what nothing ties is in their first task. `pipelines`: state that one task has with the
    runners that use it, whoever else does.
    """

    tasks: Mapping[str, int]
    memory: Mapping[str, int] = field(default_factory=dict[str, int])
    state: Mapping[str, Constraint] = field(default_factory=dict[str, Constraint])
    values: Mapping[str, Constraint] = field(default_factory=dict[str, Constraint])
    together: Mapping[str, str] = field(default_factory=dict[str, str])
    replicated: Mapping[str, str] = field(default_factory=dict[str, str])
    fixed: Mapping[str, TaskSite] = field(default_factory=dict[str, TaskSite])
    because: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: Mapping[str, Symbol] = field(default_factory=dict[str, Symbol])
    elastic: Collection[str] = ()
    pipelines: frozenset[str] = frozenset()

    @property
    def tasks_in_order(self) -> tuple[TaskSite, ...]:
        """Every task, by rank."""
        return tuple(TaskSite(job, number) for job, count in self.tasks.items() for number in range(count))


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a node or piece of state went. `reason` says why in words; `alternatives` are the sites that were compared
    with the simulated time, in seconds, at which it would be finished there; `start` and `finish` are simulated too."""

    name: str
    site: TaskSite
    reason: str
    start: float = 0.0
    finish: float = 0.0
    alternatives: tuple[tuple[TaskSite, float], ...] = ()
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A placement with the decisions behind it: those of state, then those of each entry in program order."""

    placement: Placement
    state: tuple[Decision, ...]
    entries: Mapping[str, tuple[Decision, ...]]


class PlacementError(Exception):
    """Constraints that cannot be met: `name` says whose, the message why."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
