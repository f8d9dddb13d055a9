"""Starting the runners that a call needs, and starting them again.

Assumes a crew and the state of the same program. Guarantees that each runner is started once; knows nothing of the
module, which may go while runners run.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc_runtime.calls import sizes
from dfc_runtime.errors import RunError
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.runners.crew import Crew, Failure
from dfc_runtime.runners.native import NativeCopy
from dfc_runtime.state.state import State


class Starter:
    """The runners that were started, by their names; `limit` is that of the memory of a program."""

    def __init__(self, crew: Crew, state: State, limit: int) -> None:
        self._crew, self._state, self._limit = crew, state, limit
        self.started: set[str] = set()
        self.on_start: Callable[[], None] = _nothing
        """Called before runners start that did not run."""

    def start(self, entry: Entry, names: frozenset[str]) -> None:
        """Starts those of these runners that are not, for a call of an entry."""
        if self._state.is_closed:
            return  # the call itself says so
        crew = self._crew
        if crew.is_forked:
            what = f"`{entry.name}` needs the runner `{min(names)}`, which is in the parent process"
            raise RunError(f"{what}\n  load the program in the child, or fork before its first call", code="E0919")
        runners = [crew.connections.entries[name] for name in sorted(names - self.started)]
        for runner in runners:
            self._state.require(runner)
        self.on_start()
        for runner in runners:
            crew.start(runner, self._arena(runner))
            self.started.add(runner.name)

    def run_apart(self, name: str) -> Failure | None:
        """Runs a runner until it has read all that its reader gives now; what made it fail, if something did."""
        runner = self._crew.connections.entries[name]
        return self._crew.run_apart(runner, self._arena(runner))

    def _arena(self, runner: Entry) -> int:
        return sizes.plan(runner, (), {}, self._limit, self._state.size).arena

    def restart(self, names: frozenset[str]) -> None:
        """Starts runners again that have ended, none of which is running."""
        self.started -= names
        for name in sorted(names):
            self.start(self._crew.connections.entries[name], frozenset({name}))


def _nothing() -> None:
    """Nobody wants to know."""


def does_not_end(runner: Entry, copy: NativeCopy) -> RunError:
    """The error for a runner that goes on when it is to end."""
    text = f"the runner `{runner.name}` does not end: it is still in iteration {copy.iteration}"
    return RunError(f"{text}\n  its code stays in memory", code="E0919", spans=[runner.location])
