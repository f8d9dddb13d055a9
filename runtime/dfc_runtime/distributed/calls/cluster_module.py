"""A program on many ranks, as each of its ranks sees it: entries as methods, state by name.

Rank 0 calls. The others call along, all in the same order, and get the same results; or they `serve`, and do what rank
0 says. Assumes that one `ClusterModule` is made on every rank. Guarantees that an error is the same on all ranks that
call, with the rank named where it arose; that a call which may have left state half changed is not followed by another
before `init` or a restore; and that calls from several threads queue up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

from dfc_runtime.calls.gate import Refusing, Serving
from dfc_runtime.checkpoints.format import Progress
from dfc_runtime.checkpoints.saving import Saving, save_request
from dfc_runtime.distributed.calls.asynchronous.update_log import UPDATES, UpdateLog
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.cluster_state import ShardedState
from dfc_runtime.distributed.calls.combine_check import FirstCalls
from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.follower import Follower
from dfc_runtime.distributed.calls.parts import ClusterParts
from dfc_runtime.distributed.calls.rank import Answer, Command, Data, Rank
from dfc_runtime.distributed.calls.requests import Requests, wrapper
from dfc_runtime.distributed.calls.short_batches import ShortBatches
from dfc_runtime.distributed.calls.stepping import CheckpointSteps, warn_of
from dfc_runtime.distributed.save.saving import ClusterSaver
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.distributed.transport.waiting import Waiting
from dfc_runtime.errors import BundleError, FeedError, UnsupportedError
from dfc_runtime.formats.manifest import Manifest
from dfc_runtime.module import INIT, CallableEntry, Module, methods
from dfc_runtime.names import did_you_mean
from dfc_runtime.observe.summaries import Sink

HELLO, LOADED = "hello", "loaded"
Folder = str | os.PathLike[str]


class ClusterEntry(CallableEntry):
    """An entry of a program on many ranks. `short` calls one that is cut into blocks with batches of any size;
    `updates` knows in which order steps have updated state, where each task takes its own."""

    short: ShortBatches | None = None
    updates: UpdateLog | None = None

    def __init__(
        self,
        plan: EntryPlan,
        end: Client | Follower,
        limit: int,
        lock: Refusing,
        steps: CheckpointSteps,
        parts: ClusterParts,
    ) -> None:
        self.signature = plan.entry
        self.plan = plan
        self._lock = lock
        wrap = wrapper(plan)
        if isinstance(end, Follower):

            def follow(*_: object, **__: object) -> object:
                lock.refuse()
                return wrap(end.call(plan))

            self.function = self._documented(follow)
            return
        requests, client = Requests(plan, limit), end
        if plan.split.steps:
            self.function = self._documented(steps.function(plan, client, requests, lock))
            return

        if plan.splits_feeds:
            self.short = ShortBatches(plan, client, lock, parts, limit)
        first = None if plan.split.check is None else FirstCalls(plan, plan.split.check, parts)

        def call(*feeds: object, **named: object) -> object:
            with lock:
                if first is None or first.done:
                    return wrap(client.call(plan, lambda: requests.checked(feeds, named)))
                return wrap(client.call_with(plan, partial(looked, first, feeds, named)))

        def looked(first: FirstCalls, feeds: Sequence[object], named: Mapping[str, object]) -> list[object]:
            client.require_whole(plan)
            request = requests.checked(feeds, named)
            first.look(client, request)
            return client.run(plan, request)

        self.function = self._documented(call)

    def _documented(self, function: Callable[..., object]) -> Callable[..., object]:
        function.__name__ = function.__qualname__ = self.signature.name
        function.__doc__ = f"{self.signature}\n\n{self.signature.doc}".strip()
        function.start = partial(_refuse_to_start, self.name)  # type: ignore[attr-defined]
        return function

    def start(self, *_: object, **__: object) -> NoReturn:
        """Calls of many ranks cannot be started: `UnsupportedError`."""
        _refuse_to_start(self.name)


def _refuse_to_start(name: str, *_: object, **__: object) -> NoReturn:
    """All ranks make the same calls in the same order, which threads of one rank would not keep to."""
    text = f"`{name}.start(..)` is for programs on one rank: many ranks make one call after the other"
    raise UnsupportedError(f"{text}\n  call `{name}(..)`", code="E1001")


class ClusterModule:
    """A program that is loaded on many ranks. An entry named like a method hides it."""

    def __init__(self, manifest: Manifest, rank: Rank, parts: ClusterParts, limit: int, digest: str) -> None:
        self.manifest = manifest
        self._rank = rank
        self._parts = parts
        self._end: Client | Follower = Client(rank) if rank.number == 0 else Follower(rank)
        serving = rank.inner.state.serving if rank.inner is not None else Serving()
        self._lock = Refusing(threading.RLock(), serving)
        self.state = ShardedState(manifest.state, rank, self._end, manifest.omitted_state)
        self._saver = ClusterSaver(rank, self.state, manifest.name)
        steps = CheckpointSteps(self._saver, self._saved())
        entries = [ClusterEntry(plan, self._end, limit, self._lock, steps, parts) for plan in rank.plans]
        self.entries: Mapping[str, ClusterEntry] = {each.name: each for each in entries if not each.signature.is_test}
        self.tests: Mapping[str, ClusterEntry] = {each.name: each for each in entries if each.signature.is_test}
        self._digest = digest
        self.at_close: list[Callable[[], None]] = []
        self._is_loaded = False
        rank.commands[HELLO] = self._hello
        rank.commands[LOADED] = self._note_loaded
        rank.commands[UPDATES] = rank.updates
        for each in entries:
            each.updates = self._update_log(each.plan)
        self.__dict__.update(methods(type(self), self.entries, _OWN | self.__dict__.keys()))

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.manifest.name

    @property
    def rank(self) -> int:
        return self._rank.number

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._rank.topology.size

    @property
    def waiting(self) -> Waiting:
        """How this rank waits for others, and what it is doing."""
        return self._rank.waiting

    @property
    def inner(self) -> Module | None:
        """The program of this rank's role."""
        return self._rank.inner

    @property
    def summaries(self) -> Sink | None:
        """What this rank has recorded. A value that all tasks of a job have is recorded by its first one."""
        return self._rank.inner.summaries if self._rank.inner is not None else None

    def start(self, *, initialise: bool) -> None:
        """Called once on all ranks: sees to it that all have the same bundle, and initialises state that is not set."""
        init = next((plan for plan in self._rank.plans if plan.name == INIT), None)
        if isinstance(self._end, Follower):
            self._end.obey("load", until=lambda: self._is_loaded)
            return
        client = self._end

        def greet() -> None:
            answers = client.command({"command": HELLO, "digest": self._digest})
            unset = any(data["unset"] for data, _ in answers.values())
            client.silence({rank: cast("list[int]", data["silent"]) for rank, (data, _) in answers.items()})
            can = init is not None and not (init.entry.parameters or init.entry.dim_feeds)
            if initialise and init is not None and can and unset:
                client.run(init, Requests(init, 0).checked((), {}))

            client.command({"command": LOADED})

        client.with_all(greet)

    def init(self) -> object:
        """Starts over: runs the program's initialisers."""
        entry = self.entries.get(INIT)
        return entry() if entry is not None else None

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
        """Saves the state of all ranks as one new checkpoint in the folder `path`, which all of them share; what it
        holds can be restored on any number of ranks. The rest is as for a program on one rank."""
        asked = save_request(Path(path), step, keep, best, progress, epoch)

        def work(client: Client) -> Answer:
            return {"path": str(self._saver.save(client, self._saved(), asked))}, []

        return Path(str(self.together("save", work)[0]["path"]))

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
        """Like `save`, from copies of the state as it is now, which the ranks write while the program goes on; the
        checkpoint stands when all parts are durable. `result()` of what comes back waits for the path. What was begun
        before is waited for."""
        asked = save_request(Path(path), step, keep, best, progress, epoch)

        answer = self.together("save_async", lambda client: self._saver.begin(client, self._saved(), asked))
        return self._saver.begun(answer[0])

    def restore(self, path: Folder, rename: object = None, only: object = None, *, best: bool = False) -> Path:
        """Restores the newest whole checkpoint of a folder, whoever saved it, as for a program on one rank."""

        def work(client: Client) -> Answer:
            restored = self._saver.restore(client, self._saved(), Path(path), rename, only, best=best)
            if only is None:
                client.restored()
            return {"path": str(restored.path), "skipped": [[str(each), fault] for each, fault in restored.skipped]}, []

        answer = self.together("restore", work)[0]
        if self.rank == 0:
            warn_of(cast("list[list[str]]", answer["skipped"]))
        return Path(str(answer["path"]))

    def read_again(self) -> Sequence[str]:
        """What tasks read again for the checkpoint that was restored last, as for a program on one rank; on rank 0."""
        return self._saver.read_again

    def _saved(self) -> list[str]:
        return [entry.name for entry in self.manifest.state if entry.saved]

    def together(self, label: str, work: Callable[[Client], Answer]) -> Answer:
        """Does something with all ranks: rank 0 does the work, giving commands; ranks that do not serve call this, too,
        with the same label, and get the same answer. For saving and restoring, say."""
        if isinstance(self._end, Follower):
            self._lock.refuse()
            return self._end.together(label)
        client = self._end
        with self._lock:
            return client.together(label, lambda: work(client), lambda answer: answer)

    def _update_log(self, plan: EntryPlan) -> UpdateLog | None:
        if plan.split.update is None:
            return None
        owner = self._rank.topology.ranks_of(plan.split.update.owner)

        def ask(data: Data) -> Answer:
            return self.together(
                f"updates of `{plan.name}`", lambda client: next(iter(client.command(data, ranks=owner).values()))
            )

        return UpdateLog(plan.number, ask)

    def add_command(self, name: str, command: Command) -> None:
        """What every rank is to do when rank 0 gives this command; said on all ranks, before it is given."""
        self._rank.commands[name] = command

    def serve(self) -> None:
        """Does what rank 0 says until that closes the program. Rank 0 does not serve."""
        if not isinstance(self._end, Follower):
            raise FeedError("rank 0 calls the program, the other ranks serve", code="E0901")
        self._end.serve()
        self._saver.wait()
        self.at_close.clear()  # rank 0 has seen to it
        self._close_inner()

    def close(self) -> None:
        """Ends the program on this rank, and on those that serve."""
        with self._lock:
            while self.at_close:
                self.at_close.pop()()
            self._saver.wait()
            if isinstance(self._end, Client):
                self._end.close()
            self._close_inner()

    def run(self, fetch: object, feed: object = None) -> object:
        """Runs just what some values of an entry need, as for a program on one rank: values come from where they are
        computed, blocks put together. A part that the deployment file does not list as a `step` is compiled by rank 0
        when it is new, which needs the compiler there. Ranks that call along say the same names. The name of an entry
        alone executes it and gives nothing."""
        if isinstance(fetch, str) and fetch in self.entries:
            return self.entries[fetch].execute(feed)
        with self._lock:
            return self._parts.run(self._end, fetch, feed)

    def extend(self, text: str) -> NoReturn:
        """Programs on many ranks cannot be extended yet: `UnsupportedError`."""
        text = "a program on many ranks cannot be extended: compile it with them, and restore its state"
        raise UnsupportedError(text, code="E1001")

    def __getattr__(self, name: str) -> NoReturn:
        entries: Mapping[str, ClusterEntry] = self.__dict__.get("entries", {})
        raise AttributeError(f"the program has no entry {name!r}{did_you_mean(name, entries)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.entries})

    def __repr__(self) -> str:
        where = f"{self._rank.waiting.name(self.rank)} of {self.size}"
        lines = [f"<module {self.name!r}, {where}", *(f"  {entry.signature}" for entry in self.entries.values())]
        return "\n".join(lines) + ">"

    def _close_inner(self) -> None:
        self._parts.close()
        if self._rank.inner is not None:
            self._rank.inner.close()

    def _hello(self, data: Data, _: Sequence[Array]) -> Answer:
        if data["digest"] != self._digest:
            raise BundleError("rank 0 has loaded another bundle", code="E0906")
        unset = self._rank.inner is not None and bool(self._rank.inner.state.unset)
        return {"unset": unset, "silent": self._rank.silent_parts()}, []

    def _note_loaded(self, _data: Data, _arrays: Sequence[Array]) -> Answer:
        self._is_loaded = True
        return {}, []


def cluster_parts_of(module: ClusterModule) -> ClusterParts:
    """The parts of its entries; no method, which an entry could hide."""
    return module._parts  # type: ignore[protected-access]  # which it is a part of


_OWN = frozenset(
    {"at_close", "entries", "tests", "state", "manifest", "name", "rank", "size", "inner", "summaries", "waiting"}
)
"""Attributes that an entry of the same name does not hide."""
