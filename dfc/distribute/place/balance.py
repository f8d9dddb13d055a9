"""How much state each task holds, against the least that any placement of it could hold.

Assumes the decisions for state that `place_state` made. Guarantees the bound of Graham's rule: where all state of a job
was free to move, the fullest task holds at most `factor` times what the best placement would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.place.cost import state_bytes
from dfc.distribute.place.model import Decision
from dfc.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Load:
    """State of the tasks of one job, in bytes. `least` is what the fullest task of any placement would hold; `limit` is
    the memory of a task, 0 without a limit."""

    job: str
    tasks: Mapping[TaskSite, int]
    least: int
    limit: int

    @property
    def fullest(self) -> int:
        return max(self.tasks.values())

    @property
    def factor(self) -> float:
        """How far from the best the rule of longest processing time can be."""
        return 4 / 3 - 1 / (3 * len(self.tasks))


def loads(graph: Graph, state: Sequence[Decision], tasks: Mapping[str, int], memory: Mapping[str, int]) -> list[Load]:
    """A load for each job, in the order of ranks."""
    return [_load(graph, state, job, count, memory.get(job, 0)) for job, count in tasks.items()]


def _load(graph: Graph, state: Sequence[Decision], job: str, count: int, limit: int) -> Load:
    held = {TaskSite(job, number): 0 for number in range(count)}
    copies, largest = 0, 0
    for decision in state:
        size = state_bytes(graph.resources[decision.name].type)
        if decision.site == TaskSite(job):
            copies += size
        elif decision.site.job == job:
            held[decision.site] += size
            largest = max(largest, size)
    least = copies + max(largest, -(-sum(held.values()) // count))
    return Load(job, {task: size + copies for task, size in held.items()}, least, limit)
