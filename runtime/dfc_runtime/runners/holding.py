"""Holding the runners of a program between two iterations, while state and queues are looked at.

One runner after the other, those that take before those that put, lets no further iteration begin: so an iteration that
waits for elements in its midst still gets them. One that waits for what it begins with is left and begun again later;
one that waits for room gets it from the reserve of the queue. Assumes that no call of an entry is under way that writes
what runners use, but for those of queues alone. Guarantees that behind it the program goes on as if nothing had been,
and that what cannot be held is one `RunError`, without a change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from dfc_runtime.errors import RunError
from dfc_runtime.formats.manifest import FaultSite
from dfc_runtime.runners.crew import Crew, Running

PATIENCE = 1.0
"""Seconds without any change after which nobody is expected to go on."""
_LOOK = 0.005


class Holder:
    """Holds the runners of one crew. `undo_draws` is told how often a runner has drawn for a take that it has not
    done."""

    def __init__(self, crew: Crew, faults: tuple[FaultSite, ...], undo_draws: Callable[[str, int], None]) -> None:
        self._crew, self._faults, self._undo_draws = crew, faults, undo_draws

    @contextmanager
    def held(self) -> Generator[None]:
        """While this lasts no iteration is under way."""
        crew = self._crew
        begun: list[Running] = []
        with crew.holding():
            order = [crew.running[name] for name in self._order() if name in crew.running]
            try:
                for running in order:
                    begun.append(running)
                    self._hold(running)
                if crew.is_stopping:
                    raise RunError("the state cannot be saved: the program is being closed", code="E0903")
                yield
            finally:
                self._go_on(begun)

    def finish(self) -> None:
        """Ends all iterations that have begun, and leaves the runners held, which are about to be ended: so none has
        anything in hand. `RunError` if that cannot be had, and they go on."""
        crew = self._crew
        begun: list[Running] = []
        with crew.holding():
            try:
                for name in self._order():
                    if name in crew.running:
                        begun.append(crew.running[name])
                        self._hold(begun[-1])
            except BaseException:
                self._go_on(begun)
                raise

    def _go_on(self, begun: Sequence[Running]) -> None:
        for running in begun:
            self._rewind(running)
            self._crew.resume(running)

    def _order(self) -> list[str]:
        crew, connections = self._crew, self._crew.connections
        order = connections.downstream_first()
        for name in crew.failures:
            runner = crew.failures[name].runner
            text = f"the state cannot be saved: the runner `{runner.name}` has failed, and what it had is lost"
            helps = "go on from the last checkpoint, or call init"
            raise RunError(f"{text}\n  {helps}", code="E0919", spans=[runner.location])
        for name in crew.running:
            runner = connections.entries[name]
            if name not in order:
                text = f"the state cannot be saved: the runner `{name}` gets back what others make of what it puts"
                helps = "runners in a ring cannot be held one behind the other"
                raise RunError(f"{text}\n  {helps}", code="E0919", spans=[runner.location])
            for queue in sorted(connections.uses[name].puts & connections.layouts.keys()):
                if connections.layouts[queue].reserve is None:
                    text = f"the state cannot be saved: the runner `{name}` puts any number of elements into `{queue}`"
                    helps = "give its loop a number of iterations that is known when the program is compiled"
                    raise RunError(f"{text} in one iteration\n  {helps}", code="E0919", spans=[runner.location])
        return order

    def _hold(self, running: Running) -> None:
        crew = self._crew
        running.native.hold()
        for name in crew.connections.uses[running.entry.name].all:
            crew.queues.queue(name).wake()
        try:
            is_held = self._has_ended(running)
        except BaseException:  # such as by Ctrl-C: those who are about to leave are not lost
            self._has_ended(running)
            raise
        if not is_held:
            raise self._refusal(running)
        self._rewind(running)

    def _has_ended(self, running: Running) -> bool:
        """Waits until no iteration of a runner is under way; False if nobody goes on any more."""
        crew, last, since = self._crew, None, time.monotonic()
        while True:
            with crew.changed:
                if not running.living:
                    return True
                crew.changed.wait(_LOOK)
            looks = self._look()
            if looks is None or looks != last:
                last, since = looks, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                return False

    def _rewind(self, running: Running) -> None:
        """Takes back what iterations did that were left where they begin."""
        drawn = running.native.rewind()
        if drawn:
            self._undo_draws(running.entry.name, drawn)

    def _look(self) -> object:
        """What everybody waits for, and the numbers of all queues; None if a copy is working."""
        crew = self._crew
        copies = [copy for running in list(crew.running.values()) for copy in list(running.living)]
        waiting = [copy.waiting() for copy in copies]
        if None in waiting:
            return None
        return waiting, [crew.queues.queue(name).numbers for name in crew.connections.queues]

    def _refusal(self, running: Running) -> RunError:
        text = f"the state cannot be saved now: the runner `{running.entry.name}` is in the midst of an iteration"
        waiting = [one for one in (copy.waiting() for copy in list(running.living)) if one is not None and one.queue]
        for each in waiting[:1]:
            where = self._faults[each.fault].location
            what = "mutex" if each.queue in self._crew.connections.mutexes else "queue"
            text += f"\n  it waits for the {what} `{each.queue}` at {where}, and nothing comes"
        helps = "save when it has gone on; a runner that only waits for elements where it begins can always be held"
        return RunError(f"{text}\n  {helps}", code="E0919", spans=[running.entry.location])
