"""What stands in the queues of a running program, for checkpoints: held, looked at, replaced.

Assumes that the caller holds the gates of the program, so that only calls which use queues and nothing else are under
way. Guarantees that what is saved belongs to one moment between iterations of all runners; and that what is restored
replaces all of it, while calls that wait for a queue go on waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.calls.memory import address_of
from dfc_runtime.checkpoints import positions, queues
from dfc_runtime.checkpoints.format import Ends
from dfc_runtime.checkpoints.parts import POSITIONS, Saved
from dfc_runtime.errors import CheckpointError, RunError
from dfc_runtime.formats.manifest import FIRST, Manifest
from dfc_runtime.formats.queue_layout import QueueLayout
from dfc_runtime.runners.connections import TAKES
from dfc_runtime.runners.crew import JOIN_SECONDS, Crew
from dfc_runtime.runners.holding import Holder
from dfc_runtime.runners.native import CLOSED, OPEN
from dfc_runtime.runners.refilling import ReadAgain, Refilling
from dfc_runtime.runners.starting import Starter, does_not_end
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.readers import Readers

_DRAWS = 2
"""Where an rng counts its draws."""


class PipelineState:
    """The queues and runners of one program, and the readers, if it has some."""

    def __init__(
        self, manifest: Manifest, crew: Crew, state: State, starter: Starter, readers: Readers | None = None
    ) -> None:
        self._sites, self._crew, self._state, self._starter = manifest.sites, crew, state, starter
        self._holder = Holder(crew, manifest.faults, self._undo_draws)
        connections = crew.connections
        self.runners = connections.runners
        self.layouts: Mapping[str, QueueLayout] = connections.layouts
        self.written = {name for each in connections.runners for name in connections.entries[each].writes}
        """The state that runners write."""
        self._refilling: dict[str, Refilling] = {}
        for name, layout in self.layouts.items():
            if layout.refill is not None and readers is not None:
                queue, reader = crew.queues.queue(name), readers.reader(layout.refill.reader)
                written = {*connections.entries[layout.refill.runner].writes} - connections.layouts.keys()
                run, locked = starter.run_apart, self._locked
                self._refilling[name] = Refilling(name, layout, state, queue, reader, written, run, locked)
        starter.on_start = self._begin
        self.last_read_again: Sequence[ReadAgain] = ()
        """What was read again for the checkpoint that was restored last."""

    def _begin(self) -> None:
        for each in self._refilling.values():
            each.begin()

    def forget(self) -> None:
        """The queues are empty now, and the program is about to begin anew."""
        for each in self._refilling.values():
            each.forget()

    def unknown(self, ends: Ends) -> list[str]:
        """Of the queues and runners that a checkpoint names, those that the program has not."""
        runners = self._crew.connections.runners
        return [each for each in ends.closed if each not in self.layouts] + [
            each for each in ends.runners if each not in runners
        ]

    def held(self) -> AbstractContextManager[None]:
        """While this lasts, no iteration of a runner is under way. `RunError` where that cannot be had."""
        self._require_runners("saved", "save it before the module is closed")
        return self._holder.held()

    def _require_runners(self, done: str, helps: str) -> None:
        """`RunError` where there are no runners and queues any more: code of a driver that was closed is not called."""
        if self._state.is_closed:
            text = f"the state cannot be {done}: the module was closed, and its queues with it"
            raise RunError(f"{text}\n  {helps}", code="E0903")
        if self._crew.is_forked:
            text = f"the state cannot be {done}: the runners of the program are in the parent process"
            raise RunError(f"{text}\n  load the program in the child, or fork before its first call", code="E0919")

    def _undo_draws(self, runner: str, count: int) -> None:
        """Takes back what a runner has drawn for takes that it has not done: an rng counts its draws."""
        for site in self._sites:
            if site.entry == runner and FIRST in site.attributes and site.kind in TAKES:
                with self._state.background:
                    self._state.arrays[f"{site.attributes['resource']}.order"][_DRAWS] -= np.uint64(count)

    @contextmanager
    def replaced(self, *, may_fail: bool = False) -> Generator[None]:
        """Ends all runners, and starts behind the block those that have run. `RunError` if one does not end. If the
        block may fail, they end between iterations, as far as that can be had: then they go on with all that there
        was."""
        self._require_runners("restored", "load the program again, and restore it there")
        crew = self._crew
        if may_fail:
            with suppress(RunError):
                self._holder.finish()
        crew.stop_runners()
        stuck = crew.join(JOIN_SECONDS)
        if stuck:
            raise does_not_end(*stuck[0])
        try:
            with crew.holding():
                crew.reset()
                yield
        finally:
            self._begin()
            self._starter.restart(frozenset(self._starter.started))

    @staticmethod
    def has_positions(saved: Collection[str]) -> bool:
        """Whether elements are to be read again for a checkpoint that has these names."""
        return any(name.endswith(POSITIONS) for name in saved)

    @contextmanager
    def read_again(self, saved: Mapping[str, Saved]) -> Generator[Sequence[ReadAgain]]:
        """Puts those elements into queues of which only positions were saved, and takes them out again if the block
        fails. The runners have ended, and nothing else was replaced yet."""
        again = [name for name in sorted(self.layouts) if f"{name}{POSITIONS}" in saved]
        for name in again:
            if name not in self._refilling:
                text = f"the elements of `{name}` are to be read again, and this program does not read them"
                reason = self.layouts[name].kept or "it gives elements by a key, or by their length"
                raise CheckpointError(f"{text}; nothing was restored\n  {reason}", code="E0902")
        with ExitStack() as stack:
            inside = {name: positions.read(saved[f"{name}{POSITIONS}"].array) for name in again}
            done = [stack.enter_context(self._refilling[name].replaced(each)) for name, each in inside.items()]
            yield done
            self.last_read_again = done

    def saved(self) -> tuple[list[Saved], Ends]:
        """The elements of all queues, or their positions, and what has come to its end. The runners are held."""
        saved: list[Saved] = []
        closed: list[str] = []
        with self._locked():
            for name, layout in sorted(self.layouts.items()):
                put, taken, state = self._crew.queues.queue(name).numbers
                refilling = self._refilling.get(name)
                inside = None if refilling is None else refilling.positions()
                if inside is not None:
                    saved.append(inside.saved(name))
                else:
                    saved += queues.contents(name, layout, self._state.arrays[name], put, taken)
                closed += [name] if state == CLOSED else []
        ended = [name for name, running in self._crew.running.items() if running.outcomes]
        return saved, Ends(tuple(closed), tuple(sorted(ended)))

    def fill(self, saved: Mapping[str, Saved], ends: Ends) -> None:
        """Puts what was saved in place of what is in the queues, but for those whose elements were read again. No
        runner is there."""
        crew = self._crew
        with self._locked():
            for name, layout in self.layouts.items():
                state, queue = CLOSED if name in ends.closed else OPEN, crew.queues.queue(name)
                if f"{name}{POSITIONS}" in saved:
                    put, taken, _ = queue.numbers
                    queue.set_numbers(put, taken, state)
                    continue
                count, fullest = queues.fill(name, layout, self._state.arrays[name], saved)
                queue.set_contents(count, fullest, state)
                if name in self._refilling:
                    self._refilling[name].forget(count)
        for name in ends.runners:
            crew.end_before(crew.connections.entries[name])
        for name in self.layouts:
            crew.queues.queue(name).wake()

    @contextmanager
    def _locked(self) -> Generator[None]:
        """The locks of all queues: calls may be at them."""
        native = self._crew.queues
        with ExitStack() as stack:
            for name in sorted(self.layouts):
                address = address_of(self._state.arrays[name])
                native.lock(address)
                stack.callback(native.unlock, address)
            yield
