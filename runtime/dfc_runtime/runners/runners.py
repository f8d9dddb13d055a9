"""The runners of a module: started by the first call that needs them, stopped with the module.

Assumes a driver with queues. Guarantees that runners do not keep a module alive that nobody holds any more; that a call
which needs runners that this process cannot have is a `RunError`; and that calls of other entries cost what they would.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING

from dfc_runtime.calls.faults import queue_error
from dfc_runtime.calls.gate import Gate
from dfc_runtime.calls.hosts import Hosts
from dfc_runtime.driver import Driver
from dfc_runtime.errors import DfcError, FeedError, RunError
from dfc_runtime.formats.manifest import Entry, FaultSite, Manifest
from dfc_runtime.runners import crew
from dfc_runtime.runners.connections import Connections, Uses
from dfc_runtime.runners.crew import Crew, Failure
from dfc_runtime.runners.deadlock import Watchman
from dfc_runtime.runners.native import QUEUE_FAILED, HasQueues, Waiting
from dfc_runtime.runners.pipeline_state import PipelineState
from dfc_runtime.runners.stages import StageMeter
from dfc_runtime.runners.starting import Starter, does_not_end
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.readers import Readers

TIMEOUT = "timeout"
"""The option of calls that may wait. A feed of this name hides it."""
_LONGEST = 10**9
INIT = "init"
"""The entry that starts a program over, and its runners and queues with it."""


class Runners:
    """What a module knows of its runners. Threads know the crew alone."""

    def __init__(
        self,
        manifest: Manifest,
        driver: Driver,
        state: State,
        hosts: Hosts,
        gate: Gate,
        limit: int,
        *,
        is_role: bool = False,
        readers: Readers | None = None,
    ) -> None:
        assert isinstance(driver, HasQueues)
        self._manifest, self._connections = manifest, Connections(manifest)
        self._state, self._gate = state, gate
        queues = driver.queues
        own = Crew(queues, self._connections, manifest.faults, hosts.ask_in, hosts.take_failure)
        self.waiting_threads: set[int] = set()
        """Those that do nothing else before a call of the program has ended that was started."""
        self._watchman = Watchman(manifest, own, self.waiting_threads, makes_one_call=is_role)
        queues.on_wait, queues.on_late = self._watchman.look, self._watchman.end_wait
        self._queues = queues
        gate.is_waited_for = self._watchman.is_waited_for
        state.background.attach(queues.lock, queues.unlock)
        self._crew = own
        self._starter = Starter(own, state, limit)
        self.pipeline = PipelineState(manifest, own, state, self._starter, readers)
        self.meter: StageMeter | None = None
        weakref.finalize(self, own.stop)

    def watch_waits(self, look: Callable[[str], None]) -> None:
        """Has calls that wait for a queue look at something else, too, a few times a second: `look` gets in words what
        they wait for, and raises what ends the wait."""
        watchman = self._watchman

        def both(waiting: Waiting) -> None:
            watchman.look(waiting)
            look(watchman.waits(waiting))

        self._queues.on_wait = both

    def started_by(self, manifest: Manifest, entry: Entry, function: Callable[..., object]) -> Callable[..., object]:
        """The function of an entry, which starts the runners that it is connected with; that of `init` ends all."""
        if entry.name == INIT and not entry.is_test:
            return self._starting_over(function)
        uses = Uses.of(site for site in manifest.sites if site.entry == entry.name)
        names, started, own = self._connections.connected(uses), self._starter.started, self._crew
        if names:
            inner, runners, starter = function, names, self._starter

            def starting(*feeds: object, **named: object) -> object:
                if own.is_forked or not runners <= started:
                    starter.start(entry, runners)
                return inner(*feeds, **named)

            function = starting
        return self._limited(function) if uses.may_wait and not _has_feed(entry, TIMEOUT) else function

    def _limited(self, function: Callable[..., object]) -> Callable[..., object]:
        """The same function with an option: for how many seconds its calls wait for queues."""
        queues = self._queues

        def call(*feeds: object, timeout: object = None, **named: object) -> object:
            if timeout is None:
                return function(*feeds, **named)
            with queues.limited(_seconds(timeout)):
                return function(*feeds, **named)

        return call

    def _starting_over(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*feeds: object, **named: object) -> object:
            self._end_all(crew.JOIN_SECONDS)
            return function(*feeds, **named)

        return call

    def _end_all(self, seconds: float) -> None:
        """Ends all runners, and the calls that wait for a queue, and empties the queues: the next call that needs
        runners starts them again. `RunError` if a runner does not end."""
        if not self._crew.is_used or self._state.is_closed:
            return
        self.stop()
        stuck = self._crew.join(seconds)
        if stuck:
            raise does_not_end(*stuck[0])
        with self._gate.closing, self._state.alone:
            self._state.empty_queues()
            self._crew.reset()
            self._starter.started.clear()
            self.pipeline.forget()

    def measured(self) -> StageMeter:
        """Measures from now on what stages do; before the first call."""
        self.meter = StageMeter(self._manifest, self._crew)
        return self.meter

    def error(self, fault: FaultSite, values: tuple[int, ...]) -> DfcError:
        """The error of a call that a queue refused: if a runner has failed, what has made it fail."""
        failure = self._crew.failures.get(fault.message)
        if values[0] != QUEUE_FAILED or failure is None:
            return queue_error(fault, values)
        return _failed(fault, failure)

    def stop(self) -> None:
        """Ends all runners, and the calls that wait for a queue. Whoever calls it waits for nothing."""
        self._state.serving.refuse()
        self._crew.stop()

    def join(self) -> RunError | None:
        """Waits until the runners have ended; the error for those that do not."""
        stuck = self._crew.join(crew.JOIN_SECONDS)
        self._state.background.detach()
        if not stuck:
            return None
        return does_not_end(*stuck[0])


def _has_feed(entry: Entry, name: str) -> bool:
    return name in (*(each.name for each in entry.parameters), *entry.dim_feeds)


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or timeout < 0 or not timeout <= _LONGEST:
        text = f"`{TIMEOUT} = {timeout!r}` is no number of seconds from 0 to {_LONGEST:,}"
        raise FeedError(f"{text}\n  leave it out to wait for as long as it takes", code="E0901")
    return float(timeout)


def _failed(fault: FaultSite, failure: Failure) -> RunError:
    """What a runner failed with, for a call that cannot go on because of it."""
    problem, runner = failure.problem, failure.runner
    message = problem.message if isinstance(problem, DfcError) else f"{type(problem).__name__}: {problem}"
    text = f"the runner `{runner.name}` has failed in iteration {failure.iteration}: {message}"
    code, spans = (problem.code, problem.spans) if isinstance(problem, DfcError) else ("E0903", ())
    values = problem.values if isinstance(problem, RunError) else ()
    error = RunError(
        f"{text}\n  the queue `{fault.message}` has nothing more because of it, at {fault.location}",
        code=code,
        spans=spans or [runner.location],
        values=values,
    )
    error.__cause__ = problem
    return error
