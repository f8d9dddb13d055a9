"""What one rank does in calls of an entry, whatever that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart


class Part(ABC):
    """A part of an entry. `calls` counts how often it was run, `doing` says so in words."""

    __slots__ = ("calls", "doing", "edges", "part", "plan")

    def __init__(self, plan: EntryPlan, part: TaskPart, edges: Edges) -> None:
        self.plan = plan
        self.part = part
        self.edges = edges
        self.doing = f"it runs `{plan.name}`"
        self.calls = 0

    @property
    def name(self) -> str:
        """The entry."""
        return self.plan.name

    @abstractmethod
    def run(self, feeds: Sequence[object], sizes: Mapping[str, int]) -> list[object]:
        """Does it, with feeds in the order of the plan's part; the results that this task gives."""

    def cancel(self) -> None:  # noqa: B027  # most have nothing of their own under way
        """After a run that failed: gives up what is under way."""
