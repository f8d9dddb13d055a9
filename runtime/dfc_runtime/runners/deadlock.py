"""Finding out that a call waits for what cannot come any more, or for longer than it is to.

A call that waits looks a few times a second. All runners and all calls that are under way are blocked, twice in the
same way, no number of any queue has changed meanwhile, and no call that may come could help: then nothing will ever
change. Who was woken, but has not run yet, is not blocked: what it waits for is there. Assumes that only runners and
calls of the program use its queues. Guarantees that a call is not ended that could have gone on.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence, Set

from dfc_runtime.calls.conflicts import Conflicts
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RunError, WaitError
from dfc_runtime.formats.manifest import Entry, FaultSite, Manifest
from dfc_runtime.runners.crew import Crew
from dfc_runtime.runners.native import Waiting


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who waits: a runner in an iteration, or a call (-1)."""

    name: str
    iteration: int
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everybody at one time, all of them blocked, and the numbers of all queues."""

    waiters: tuple[Waiter, ...]
    numbers: tuple[tuple[int, int, int], ...]


class Watchman:
    """What the calls of a program that wait ask. `waiting_threads` do nothing else before a call of the program has
    ended: this one, or one that is under way, too, or one that has to wait for such a one. One rank of many
    `makes_one_call` at a time."""

    def __init__(
        self,
        manifest: Manifest,
        crew: Crew,
        waiting_threads: Set[int] = frozenset(),
        *,
        makes_one_call: bool = False,
    ) -> None:
        self._waiting_threads, self._makes_one_call = waiting_threads, makes_one_call
        self._conflicts = Conflicts(manifest)
        self._crew, self._connections = crew, crew.connections
        self._faults: Sequence[FaultSite] = manifest.faults
        self._entries: Mapping[int, str] = {
            fault: site.entry for site in manifest.sites if isinstance(fault := site.attributes.get("fault"), int)
        }
        self._holding = {each.name for each in manifest.entries if not manifest.uses_queues_only(each)}
        self._last: dict[int, Snapshot] = {}

    def is_waited_for(self) -> bool:
        """Whether a call waits which holds locks of the gate meanwhile: who is not let in might bring what it needs."""
        calls = self._crew.queues.calls()
        return any(each is not None and self._entries.get(each.fault) in self._holding for each in calls)

    def look(self, waiting: Waiting) -> None:
        """In the thread of a call that waits: `RunError` if it will wait for ever."""
        thread = threading.get_ident()
        snapshot = self._snapshot()
        before = self._last.pop(thread, None)
        if snapshot is None:
            return
        if snapshot != before:
            self._last[thread] = snapshot
        elif not self._somebody_may_come(snapshot):
            raise self._error(waiting, snapshot)

    def end_wait(self, waiting: Waiting, seconds: float) -> None:
        """In the thread of a call that is not to wait any longer, so many seconds after it began: `WaitError`."""
        fault = self._faults[waiting.fault]
        lines = [f"`{self._entries[waiting.fault]}` {self.waits(waiting)}: {seconds:.2f} s are over"]
        lines += self._holder(waiting)
        lines += [self._line(each) for each in [*self._calls(waiting), *self._runners()] if each.waiting.queue]
        lines.append(
            "  call it again, or with a longer `timeout`; what it took from queues, or put into them, stays so"
        )
        raise WaitError("\n".join(lines), code="E0919", spans=[fault.location])

    def _calls(self, own: Waiting) -> list[Waiter]:
        """Calls that wait elsewhere: one of them may hold what is waited for."""
        others = [each for each in self._crew.queues.calls() if each is not None and each.fault != own.fault]
        waiters = [Waiter(self._entries[each.fault], -1, each) for each in others]
        return sorted(waiters, key=lambda each: (each.name, each.waiting.fault))

    def _runners(self) -> list[Waiter]:
        """Those that wait; a copy that waits for its turn has no queue."""
        copies = [(run.entry.name, each) for run in list(self._crew.running.values()) for each in list(run.living)]
        looks = [(name, copy.iteration, copy.waiting()) for name, copy in copies]
        waiters = [Waiter(name, iteration, waiting) for name, iteration, waiting in looks if waiting is not None]
        return sorted(waiters, key=lambda each: (each.name, each.iteration))

    def _snapshot(self) -> Snapshot | None:
        """None if somebody is not blocked, or will go on when runners are no longer held."""
        if self._crew.is_held or self._crew.is_stopping:
            return None
        waiters: list[Waiter] = []
        for running in list(self._crew.running.values()):
            for copy in list(running.living):
                waiting = copy.waiting()
                if waiting is None or not waiting.is_blocked:
                    return None
                waiters.append(Waiter(running.entry.name, copy.iteration, waiting))
        for waiting in self._crew.queues.calls():
            if waiting is None or not waiting.is_blocked:
                return None
            waiters.append(Waiter(self._entries[waiting.fault], -1, waiting))
        return Snapshot(tuple(waiters), tuple(self._crew.queues.queue(n).numbers for n in self._connections.queues))

    def _somebody_may_come(self, snapshot: Snapshot) -> bool:
        """Whether a call that is let in beside those that are there could help one who waits."""
        calls = sum(each.iteration < 0 for each in snapshot.waiters)
        if self._makes_one_call or self._threads() <= calls:
            return False
        inside = [self._connections.entries[each.name] for each in snapshot.waiters if each.iteration < 0]
        return any(
            not any(self._conflicts.excludes(entry, each) for each in inside) and self._helps(entry, snapshot.waiters)
            for entry in self._connections.entries.values()
        )

    def _threads(self) -> int:
        """How many threads of this process are in a call, or could come to one: those of dfc without a call could not.
        This one is counted, also if Python has not made it."""
        own = threading.current_thread()
        threads = {own, *threading.enumerate()}
        names = [each.name for each in threads if each.ident not in self._waiting_threads]
        return sum(not name.startswith("dfc-") for name in names)

    def _helps(self, entry: Entry, waiters: Sequence[Waiter]) -> bool:
        if entry.is_runner or entry.is_test:
            return False
        return any(
            self._connections.helps(entry.name, each.waiting.queue, to_put=each.waiting.to_put) for each in waiters
        )

    def _error(self, waiting: Waiting, snapshot: Snapshot) -> RunError:
        fault = self._faults[waiting.fault]
        lines = [f"`{self._entries[waiting.fault]}` {self.waits(waiting)}, for ever: nobody can go on"]
        lines += self._holder(waiting)
        named = [each for each in snapshot.waiters if each.waiting.queue and each.waiting != waiting]
        for each in sorted(named, key=lambda one: (one.name, one.iteration)):
            lines.append(self._line(each))
        helpers = [each for each in self._connections.entries.values() if self._helps(each, snapshot.waiters)]
        if helpers:
            own = self._connections.entries[self._entries[waiting.fault]]
            is_let_in = self._makes_one_call or not all(self._conflicts.excludes(own, each) for each in helpers)
            alone = "there is no other thread to call it"
            if self._makes_one_call:
                alone = "many ranks make one call after the other"
            shared = self._conflicts.shared(own, helpers[0])[:1]
            reason = f"both use `{shared[0]}`, so " if shared else ""
            kept_out = f"it is not let in while this call runs: {reason}declare both entries `with concurrent = true`"
            lines.append(f"  `{helpers[0].name}` could help, but {alone if is_let_in else kept_out}")
        return RunError("\n".join(lines), code="E0919", spans=[fault.location])

    def _holder(self, waiting: Waiting) -> list[str]:
        """Who has the mutex that is waited for, whatever it does: it may compute, and wait for nothing."""
        fault = None
        if waiting.queue in self._connections.mutexes:
            fault = self._crew.queues.queue(waiting.queue).acquired
        if fault is None:
            return []
        name = self._entries[fault]
        who = f"the runner `{name}`" if self._connections.entries[name].is_runner else f"`{name}`"
        return [f"  {who} holds it, acquired at {self._faults[fault].location}"]

    def _line(self, waiter: Waiter) -> str:
        runner = f"the runner `{waiter.name}`, in iteration {waiter.iteration},"
        return f"  {runner if waiter.iteration >= 0 else f'`{waiter.name}`'} {self.waits(waiter.waiting)}"

    def waits(self, waiting: Waiting) -> str:
        """What somebody waits for, in words behind its name."""
        location = self._faults[waiting.fault].location
        if waiting.queue in self._connections.mutexes:
            return f"waits for the mutex `{waiting.queue}` at {location}"
        if waiting.to_put:
            return f"waits for room in the queue `{waiting.queue}` at {location}"
        count = "an element" if waiting.needed == 1 else f"{waiting.needed} elements"
        return f"waits for {count} in the queue `{waiting.queue}` at {location}"
