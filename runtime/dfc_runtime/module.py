"""A loaded program: entries as methods, state by name, checkpoints.

Assumes a bundle that was checked. Guarantees that calls from several threads are safe: those that share state
which one of them writes queue up, but for `readonly` ones, which run concurrently with all others, and `concurrent`
ones, which run concurrently with each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from dfc_runtime.calls.calls import Machinery
from dfc_runtime.calls.compiling.origin import Origin
from dfc_runtime.calls.compiling.partial import Build, PartialEntries, fed_values
from dfc_runtime.calls.functions import make_call
from dfc_runtime.checkpoints import restore as checkpoints
from dfc_runtime.checkpoints.format import Progress
from dfc_runtime.checkpoints.requests import warn_of_skipped
from dfc_runtime.checkpoints.saving import Saver, Saving, save_request
from dfc_runtime.driver import Driver
from dfc_runtime.errors import FeedError, UnsupportedError
from dfc_runtime.formats.manifest import Entry, Manifest
from dfc_runtime.names import did_you_mean
from dfc_runtime.observe.finite import checked, has_checks
from dfc_runtime.observe.summaries import FileSink
from dfc_runtime.observe.tracing import Stages
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dfc_runtime.runners.runners import Runners  # programs without queues need nothing of it

INIT = "init"
T = TypeVar("T", bound=Callable[..., object])
Folder = str | os.PathLike[str]


class CallableEntry:
    """An entry to call, on one rank or many; `signature` says what it takes and gives."""

    signature: Entry
    function: Callable[..., object]

    @property
    def name(self) -> str:
        return self.signature.name

    def __call__(self, *feeds: object, **named: object) -> object:
        return self.function(*feeds, **named)

    def execute(self, feed: object) -> None:
        """Calls it for its effects, with feeds by their own or their full names."""
        prefix = f"{self.name}/"
        feeds: dict[str, object] = {}
        for name, value in fed_values(feed).items():
            own = name.removeprefix(prefix)
            if own in feeds:
                raise FeedError(f"`{self.name}` got the feed {own} twice, as {own} and as {prefix}{own}", code="E0901")
            feeds[own] = value
        self.function(**feeds)

    def __repr__(self) -> str:
        return f"<{self.signature}>"


class ModuleEntry(CallableEntry):
    """An entry of a program on one rank."""

    def __init__(self, machinery: Machinery, number: int, origin: Origin) -> None:
        self.signature = machinery.manifest.entries[number]
        function = make_call(machinery, number)
        if has_checks(machinery.manifest):
            function = checked(machinery, origin, self.signature, function)
        self._machinery = machinery
        self.function = _documented(function, self.signature)
        self.function.start = self.start  # type: ignore[attr-defined]

    def start(self, *feeds: object, **named: object) -> Future[object]:
        """Starts a call and comes back at once: `result()` of the future is what the call gives or raises. Calls that
        share state are made in the order in which they are started, all others at the same time. Feeds are not to be
        changed before the call has ended; one that has not begun can be cancelled."""
        from dfc_runtime.calls.started.starting import start  # most programs are called and waited for

        return start(self._machinery, self.signature, self.function, feeds, named)


class Module:
    """A program that is loaded. `model.train(...)` calls the entry `train`; an entry named like a method hides it."""

    def __init__(self, machinery: Machinery, origin: Origin, saver: Saver) -> None:
        self.manifest: Manifest = machinery.manifest
        self.state: State = machinery.state
        self._machinery = machinery
        self.summaries = machinery.hosts.summaries
        self.at_close: list[Callable[[], None]] = []
        self.reload: Callable[[bytes], Module] = _not_loaded_alone
        self._saver = saver
        self._parts = PartialEntries(origin, self._machinery)
        called = [number for number, each in enumerate(self.manifest.entries) if not each.is_runner]
        entries = [ModuleEntry(self._machinery, number, origin) for number in called]
        self.entries: Mapping[str, ModuleEntry] = {each.name: each for each in entries if not each.signature.is_test}
        self.tests: Mapping[str, ModuleEntry] = {each.name: each for each in entries if each.signature.is_test}
        self.__dict__.update(methods(type(self), self.entries, _OWN | self.__dict__.keys()))

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.manifest.name

    def init(self) -> object:
        """Starts over: runs the program's initialisers."""
        entry = self.entries.get(INIT)
        return entry() if entry is not None else None

    def init_over(self, driver: Driver) -> None:
        """Runs the initialisers with another driver, whose state is in part not that of the module."""
        names = [entry.name for entry in self.manifest.entries]
        make_call(replace(self._machinery, driver=driver), names.index(INIT))()
        driver.close()

    def save(
        self,
        path: Folder,
        *,
        step: int | None = None,
        keep: int | None = None,
        best: float | None = None,
        progress: Progress | None = None,
        epoch: int | None = None,
    ) -> Path:
        """Saves all state as a new checkpoint in the folder `path`, and returns where it lies. The newest `keep` stay
        (as many as were said last for this folder, else two), and the one with the lowest score, which is given as
        `best` (a loss, say). `progress` is kept with it. With an `epoch`
        (`dfc_runtime.distributed.launch.epochs.take`) it is refused once somebody else has taken the folder."""
        asked = save_request(Path(path), step, keep, best, progress, epoch)
        with self.state.gates:
            return self._saver.save(self._saved(), asked)

    def save_async(
        self,
        path: Folder,
        *,
        step: int | None = None,
        keep: int | None = None,
        best: float | None = None,
        progress: Progress | None = None,
        epoch: int | None = None,
    ) -> Saving:
        """Like `save`, from a copy of the state as it is now, while the program goes on. `result()` of what comes back
        waits for the path; the program does not end before it is written."""
        asked = save_request(Path(path), step, keep, best, progress, epoch)
        with self.state.gates:
            return self._saver.begin(self._saved(), asked)

    def restore(self, path: Folder, rename: object = None, only: object = None, *, best: bool = False) -> Path:
        """Restores the newest whole checkpoint of a folder, with `best` that of the lowest score, or the checkpoint
        `path` itself: all of it or nothing. `rename` maps names in the checkpoint to names here; `only` is a pattern,
        or several, of names to restore."""
        with self.state.gates:
            self._saver.wait()
            pipeline, names = self._saver.pipeline, self._saved()
            restored = checkpoints.restore(
                self.state, self.name, Path(path), names, rename, only, best=best, pipeline=pipeline
            )
        warn_of_skipped(restored)
        return restored.path

    def read_again(self) -> Sequence[str]:
        """What the checkpoint that was restored last has no elements of, so that they were read again: a line for each
        queue, which says how many, and how long it took."""
        pipeline = self._saver.pipeline
        return () if pipeline is None else [str(each) for each in pipeline.last_read_again]

    def run(self, fetch: object, feed: object = None) -> object:
        """Runs just what some values of an entry need: `run(["train/logits"], {"train/hidden": h})`. A list gives a
        tuple in its order, one name gives one value. What is fed replaces the value of that name, and what only it
        needed does not run; parameters may be fed by their own names. A signature is compiled when it is new, which
        needs the compiler. The name of an entry alone, `run("train", ..)`, executes all of it and gives nothing."""
        if isinstance(fetch, str) and fetch in self.entries:
            return self.entries[fetch].execute(feed)
        return self._parts.run(fetch, feed)

    def extend(self, text: str) -> Module:
        """A new program: this one with the declarations of `text` behind it, entries, variables and whatever a program
        may declare. It goes on from a copy of the state; this one stays as it is. Needs the compiler; mistakes are told
        by its `CompileError`, at lines of `text`."""
        from dfc_runtime.calls.compiling.extension import (  # most programs stay what they are
            copy_state,
            extended_bundle,
        )

        origin = parts_of(self).origin
        longer = self.reload(extended_bundle(origin, Build.of(self.manifest), text))
        copy_state(self, longer)
        return longer

    def free(self) -> None:
        """Gives working memory back until the next call."""
        with self.state.alone:
            for arena in self._machinery.arenas:
                arena.free()
            self._machinery.results.free()

    def measured_stages(self) -> Stages | None:
        """Measures from now on what runners and those who use queues do; None for a program without."""
        runners = self._machinery.runners
        return None if runners is None else runners.measured()

    def close(self) -> None:
        """Ends runners and calls that wait for a queue, waits for calls that run, and ends the driver. Afterwards no
        entry can be called; state can still be read and, where there are no queues, saved. `RunError` if a runner does
        not end."""
        if self.state.is_broken:
            return  # the process has another one, whose calls go on
        runners, started = self._machinery.runners, self._machinery.started
        if started is not None:
            started.cancel()
        if runners is not None:
            runners.stop()
        problem = None if runners is None else runners.join()
        self._close()
        if problem is not None:
            raise problem

    def _close(self) -> None:
        with self._machinery.gate.closing, self.state.alone:
            self._saver.wait()
            if self.state.is_closed:
                return
            while self.at_close:
                self.at_close.pop()()
            self.state.close()
            try:
                self.state.detach()
            finally:
                self._parts.close()
                self._machinery.driver.close()
            if isinstance(self.summaries, FileSink):
                self.summaries.close()

    def __getattr__(self, name: str) -> NoReturn:
        entries: Mapping[str, ModuleEntry] = self.__dict__.get("entries", {})  # empty while it is being made
        raise AttributeError(f"the program has no entry {name!r}{did_you_mean(name, entries)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.entries})

    def __repr__(self) -> str:
        lines = [f"<module {self.name!r}", *(f"  {entry.signature}" for entry in self.entries.values())]
        return "\n".join(lines) + ">"

    def _saved(self) -> list[str]:
        return [entry.name for entry in self.manifest.state if entry.saved]


def _not_loaded_alone(_: bytes) -> Module:
    raise UnsupportedError("the program of one rank of many cannot be extended", code="E1001")


_OWN = frozenset({"name"})
"""Attributes that an entry of the same name does not hide, besides those that each object has."""


def methods(
    kind: type, entries: Mapping[str, CallableEntry], own: AbstractSet[str]
) -> Mapping[str, Callable[..., object]]:
    """What calls each entry as an attribute. Public methods of the `kind` of module may be hidden by it; not those
    that it works with itself, nor its `own` attributes."""
    names = [name for name in entries if name not in own and not (name.startswith("_") and hasattr(kind, name))]
    return {name: entries[name].function for name in names}


def parts_of(module: Module) -> PartialEntries:
    """The parts of its entries; no method, which an entry could hide."""
    return module._parts  # type: ignore[protected-access]  # which it is a part of


def runners_of(module: Module) -> Runners | None:
    """Its runners, where it has queues; likewise."""
    return module._machinery.runners  # type: ignore[protected-access]  # which it is a part of


def _documented(function: T, entry: Entry) -> T:
    """The function with the name, the signature and the documentation of its entry, for `help`."""
    function.__name__ = function.__qualname__ = entry.name
    function.__doc__ = _help(entry)
    function.__signature__ = _signature(entry)  # type: ignore[attr-defined]
    return function


def _signature(entry: Entry) -> Signature | None:
    """None for names Python could not write, such as keywords."""
    either, named = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    try:
        feeds = [Parameter(p.name, either, annotation=str(p)) for p in entry.parameters]
        return Signature([*feeds, *(Parameter(name, named, annotation="int") for name in entry.dim_feeds)])
    except (ValueError, TypeError):
        return None


def _help(entry: Entry) -> str:
    lines = [str(entry)]
    if entry.doc:
        lines += ["", entry.doc]
    documented = [p for p in entry.parameters if p.doc]
    if documented:
        lines += ["", *(f"{p.name}: {p.doc}" for p in documented)]
    return "\n".join(lines)
