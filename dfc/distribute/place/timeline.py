"""The simulated run of an entry, and the lower bound that no placement could beat.

Assumes the decisions of one entry, in program order. Guarantees that `lower_bound` is a lower bound under the same
costs: no run on these tasks ends before the longest chain of nodes, or before the work is done by all tasks together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.place.model import Decision
from dfc.ir import walk
from dfc.ir.graph import Value


@dataclass(frozen=True, slots=True)
class Timeline:
    """Seconds. `tasks` has the nodes each task runs, in their order; `busy` how long each computes; `work` is what all
    tasks compute together."""

    finish: float
    critical_path: float
    work: float
    tasks: Mapping[TaskSite, Sequence[Decision]]
    busy: Mapping[TaskSite, float]

    @property
    def lower_bound(self) -> float:
        """No placement finishes sooner."""
        return max(self.critical_path, self.work / len(self.tasks))


def timeline(decisions: Sequence[Decision], tasks: Sequence[TaskSite]) -> Timeline:
    """What each task does when."""
    rows: dict[TaskSite, list[Decision]] = {task: [] for task in tasks}
    for decision in decisions:
        for task in tasks:
            if task.job == decision.site.job and decision.site.task in (None, task.task):
                rows[task].append(decision)
    busy = {task: sum(each.finish - each.start for each in row) for task, row in rows.items()}
    finish = max((each.finish for each in decisions), default=0.0)
    return Timeline(finish, critical_path(decisions), sum(busy.values()), rows, busy)


def critical_path(decisions: Sequence[Decision]) -> float:
    """The longest chain of nodes that need each other, without messages."""
    ends: dict[Value, float] = {}
    longest = 0.0
    for decision in decisions:
        node = decision.node
        if node is None:
            continue
        begin = max((ends.get(value, 0.0) for value in walk.inputs(node)), default=0.0)
        end = begin + decision.finish - decision.start
        ends.update(dict.fromkeys(node.results, end))
        longest = max(longest, end)
    return longest
