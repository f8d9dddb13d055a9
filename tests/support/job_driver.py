"""A supervisor of `job_child`, whose clock is set forward once, so that nobody waits for a silence.

Arguments: numbers of ranks, restarts and least ranks, the folder of the epochs, when to set the clock; then those of
the child. When: `never`; `stopped`, once the launcher was seen to be stopped; `done`, once all ranks are done, too; or
a file: once it is there and rank 0 has spoken twice since, so that all that others had said before was heard.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from dfc_runtime.distributed.launch import coordinator, supervisor

OFFSET = 40.0
"""Seconds, which is longer than the silence that counts as death."""


class Clock:
    """In the place of `time` for the supervisor."""

    offset = 0.0
    sleep = staticmethod(time.sleep)

    def monotonic(self) -> float:
        return time.monotonic() + self.offset


class Setting:
    """Sees all events before the coordinator does."""

    def __init__(self, clock: Clock, when: str) -> None:
        self.clock, self.when, self.heard = clock, when, 0

    def react(self, state: coordinator.State, event: coordinator.Event) -> coordinator.Reaction:
        if not self.clock.offset and self.is_due(state, event):
            self.clock.offset = OFFSET
            event = replace(event, time=event.time + OFFSET)
        return PLAIN(state, event)

    def is_due(self, state: coordinator.State, event: coordinator.Event) -> bool:
        match self.when:
            case "never":
                return False
            case "stopped":
                return state.halted is not None
            case "done":
                return state.halted is not None and len(state.completed) == state.ranks
            case file:
                self.heard += isinstance(event, coordinator.Beat) and event.rank == 0 and Path(file).exists()
                return self.heard == 2


PLAIN = coordinator.react


def main(ranks: int, restarts: int, least: int, folder: Path, when: str, child: list[str]) -> int:
    clock = Clock()
    supervisor.time = clock
    coordinator.react = Setting(clock, when).react
    job = supervisor.Job(["tests.support.job_child", *child], coordinator.Policy(ranks, restarts, least), folder)
    return supervisor.supervise(job, lambda text: os.write(2, f"told: {text}\n".encode()) and None)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4]), Path(sys.argv[4]), sys.argv[5], sys.argv[6:]))
