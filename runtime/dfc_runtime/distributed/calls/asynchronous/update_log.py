"""What the owner of state knows of the updates of an entry, and an order for those to come: for whoever calls.

Assumes that all ranks ask together, as they call. Guarantees that what is read is of calls that have ended.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.rank_data import Answer, Data
from dfc_runtime.errors import FeedError
from dfc_runtime.formats.fields import LARGEST, integer, items
from dfc_runtime.kinds import brief

UPDATES = "updates"
"""The command that asks for them."""


@dataclass(slots=True)
class Updates:
    """`order` has the task that each event of the last call came from: its first one is that it wants variables, each
    other one is an update. `staleness` counts, for all calls since the program was loaded, how many updates of others
    had come between the variables that a gradient was taken at and its own update; `dropped` those steps that came too
    late to be used."""

    order: list[int] = field(default_factory=list[int])
    staleness: Counter[int] = field(default_factory=Counter[int])
    dropped: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"{late}: {self.staleness[late]}" for late in sorted(self.staleness))
        text = f"updates by staleness: {counts}" if counts else "no updates"
        return f"{text}; dropped: {self.dropped}" if self.dropped else text

    def to_data(self) -> Data:
        counts = [[late, count] for late, count in self.staleness.items()]
        return {"order": self.order, "staleness": counts, "dropped": self.dropped}


class UpdateLog:
    """Updates of one entry, as rank 0 sees them; other ranks ask along, unless they serve."""

    def __init__(self, entry: int, ask: Callable[[Data], Answer]) -> None:
        self._entry = entry
        self._ask = ask

    def read(self) -> Updates:
        """What is known of them."""
        data = self._ask({"command": UPDATES, "entry": self._entry})[0]
        pairs = (items(each, "staleness") for each in items(data["staleness"], "staleness"))
        counts = Counter({integer(late, "updates"): integer(count, "count") for late, count in pairs})
        order = [integer(each, "task") for each in items(data["order"], "order")]
        return Updates(order, counts, integer(data["dropped"], "dropped"))

    def replay(self, order: Sequence[int]) -> None:
        """Gives the next call an order that was read: with the same feeds and state it has the same bits. One that it
        cannot have is refused."""
        words = "an order consists of numbers of tasks, as `read().order` has them"
        try:
            tasks = [operator.index(task) for task in order]
        except TypeError:
            raise FeedError(f"{words}, not {brief(order)}", code="E0901") from None
        if any(not 0 <= task <= LARGEST for task in tasks):
            raise FeedError(words, code="E0901")
        self._ask({"command": UPDATES, "entry": self._entry, "replay": tasks})
