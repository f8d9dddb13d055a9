"""Checkpoints of a program on many ranks: each rank writes what it owns, rank 0 publishes, any number can restore.

Assumes a folder that all ranks share. Guarantees what checkpoints of one rank guarantee (atomic, durable, read back
before the oldest goes); that a session which another one has replaced publishes nothing; that what is written in the
background is the state of all ranks as it was between two calls; and that what is restored is the same state, wherever
it was and wherever it goes: rank 0 reads and checks all of it before any rank is told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dfc_runtime.checkpoints import format, restore, store
from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.checkpoints.format import About, Ends
from dfc_runtime.checkpoints.parts import MARK, Part, Saved
from dfc_runtime.checkpoints.saving import SaveRequest, Saving
from dfc_runtime.checkpoints.store import ChosenCheckpoint
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.launch import epochs
from dfc_runtime.distributed.launch.record_files import current_epoch
from dfc_runtime.distributed.save import background
from dfc_runtime.distributed.save.background import Written
from dfc_runtime.distributed.save.queues import ClusterQueues
from dfc_runtime.distributed.shards import rows_of
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.distributed.transport.waiting import Awaited
from dfc_runtime.errors import CheckpointError, FileError, LimitError
from dfc_runtime.formats.fields import items, text

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.cluster_state import ShardedState
    from dfc_runtime.distributed.calls.rank import Answer, Data, Rank

WRITE, COPY = "checkpoint.write", "checkpoint.copy"


class ClusterSaver:
    """Saves and restores the state of all ranks; one on each of them, rank 0's is asked. `last` is what this rank does
    in the background, or did last."""

    def __init__(self, rank: Rank, state: ShardedState, program: str) -> None:
        self._rank = rank
        self._state = state
        self._program = program
        self._queues = ClusterQueues(rank, state)
        self.read_again: Sequence[str] = ()
        """What tasks read again for the checkpoint that was restored last, a line for each queue."""
        self.last: Saving | None = None
        self._write: partial[None] | None = None
        rank.commands[WRITE] = self._write_own
        rank.commands[COPY] = self._copy_own

    def save(self, client: Client, names: Sequence[str], asked: SaveRequest) -> Path:
        """Saves these names. Inside of something that is done together."""
        self.wait()
        about = About(asked.step or 0, self._program, asked.best, asked.progress)

        def contents(_: Disk, folder: Path, about: About) -> str:
            data: Data = {"command": WRITE, "folder": str(folder.resolve()), "names": list(names)}
            answers = client.command(data, (), self._writers(names))
            return self._manifest(names, asked, about, [Written.from_json(data) for data, _ in answers.values()])

        return store.publish(asked.folder, about, contents, numbered=asked.step is not None, keep=asked.keep)

    def begin(self, client: Client, names: Sequence[str], asked: SaveRequest) -> Answer:
        """Has every rank copy what it owns, and saves the copies while the program goes on (`last`); the answer is for
        `begun`. Inside of something that is done together; what was begun before is waited for."""
        self.wait()
        about = About(asked.step or 0, self._program, asked.best, asked.progress)
        try:
            begun = store.begin(asked.folder, about, numbered=asked.step is not None, keep=asked.keep)
        except (FileError, CheckpointError) as problem:
            return {"problem": problem.message, "code": problem.code}, []
        data: Data = {"command": COPY, "folder": str(begun.temporary.resolve()), "names": list(names)}
        try:
            client.command({**data, "target": str(begun.target.resolve())})
        except BaseException:
            store.give_up(begun)
            raise
        write, self._write = self._write, None
        writers = [self._rank.waiting.name(rank) for rank in self._writers(names)]

        manifest = partial(self._manifest, names, asked, begun.about)
        seconds = self._rank.waiting.seconds
        self.last = Saving(lambda: background.published(begun, write, writers, manifest, seconds), daemon=True)
        return {"problem": "", "code": ""}, []

    def begun(self, answer: Data) -> Saving:
        """What was begun, or why it could not be."""
        if answer["problem"]:
            problem = FileError(text(answer["problem"], "problem"), code=text(answer["code"], "code"))
            self.last = Saving(partial(_raise, problem), daemon=True)
        assert self.last is not None
        return self.last

    def wait(self) -> None:
        """Waits for what is written in the background; others get answers meanwhile."""
        last, self.last = self.last, None
        if last is not None:
            awaited = Awaited("a checkpoint that is being written", -1)
            self._rank.waiting.wait(lambda: last.done, lambda: awaited, forever=True)
            if self._rank.number == 0:
                last.warn_if_failed()

    def _writers(self, names: Sequence[str]) -> list[int]:
        """The ranks that own any of these names: their files are numbered in this order."""
        owners = {rank for name in names for rank in self._state.owners(name)}
        return sorted({*owners, *self._queues.ranks} if self._is_whole(names) else owners)

    def _is_whole(self, names: Collection[str]) -> bool:
        """Whether this is all that a program saves: then its queues are saved, too."""
        return {entry.name for entry in self._state.entries.values() if entry.saved} <= {*names}

    def _manifest(self, names: Sequence[str], asked: SaveRequest, about: About, written: Sequence[Written]) -> str:
        """The manifest of the files of all writers; `ReplacedError` if this session may publish nothing any more."""
        epochs.check(asked.folder, asked.epoch if asked.epoch is not None else current_epoch())
        types = {name: (entry.dtype, entry.shape) for name, entry in self._state.entries.items() if name in names}
        types |= {name: type_ for file in written for name, type_ in file.state.items() if MARK in name}
        closed = sorted(each for file in written for each in file.ends.closed)
        ended = sorted(each for file in written for each in file.ends.runners)
        about = replace(about, ends=Ends(tuple(closed), tuple(ended)))
        each = zip(self._writers(names), written, strict=True)
        files = [file.task_file(self._parts(rank)) for rank, file in each]
        return format.manifest_of(about, types, {format.task_name(n): file for n, file in enumerate(files)})

    def _parts(self, rank: int) -> dict[str, Part]:
        """Which rows a rank has of what is sharded."""
        parts: dict[str, Part] = {}
        for name in self._state.entries:
            rule, axis, owners = self._state.sharding(name)
            if rule and rank in owners:
                parts[name] = Part(rule, axis, len(owners), owners.index(rank))
        return parts

    def _write_own(self, data: Data, _: list[Array]) -> Answer:
        """One rank's file."""
        names = [text(name, "name") for name in items(data["names"], "names")]
        path = Path(text(data["folder"], "folder")) / format.task_name(self._number(names))
        return background.write_file(path, *self._held(names, copied=False)).to_json(), []

    def _copy_own(self, data: Data, _: list[Array]) -> Answer:
        """A copy of what this rank owns. Rank 0 keeps it for `begin`, others write it at once."""
        names = [text(name, "name") for name in items(data["names"], "names")]
        folder, target = Path(text(data["folder"], "folder")), Path(text(data["target"], "folder"))
        self._write = None
        if self._rank.number in self._writers(names):
            try:
                own, ends = self._held(names, copied=True)
            except MemoryError:
                raise LimitError("there is no memory for a copy of the state: use save", code="E0905") from None
            self._write = partial(background.write_part, folder, self._number(names), own, ends)
        if self._rank.number != 0:
            write, self._write = self._write, None

            self.last = Saving(lambda: background.watched(folder, write, target), daemon=True)
        return {}, []

    def _number(self, names: Sequence[str]) -> int:
        """Which of the files is this rank's."""
        return self._writers(names).index(self._rank.number)

    def _held(self, names: Sequence[str], *, copied: bool) -> tuple[list[Saved], Ends]:
        """What this rank has of these names, and of queues, at one moment. What goes on to change is copied."""
        with self._queues.held(is_whole=self._is_whole(names)) as held:
            own = [
                replace(each, array=each.array.copy()) if copied or each.name in held.written else each
                for each in self._own(names)
            ]
            return [*own, *held.elements], held.ends

    def _own(self, names: Sequence[str]) -> list[Saved]:
        """What this rank has of these names, without the room of a shard that holds no row."""
        assert self._rank.inner is not None
        tensors: list[Saved] = []
        for name in sorted({*self._state.owned()} & {*names}):
            entry, array = self._state.entries[name], self._rank.inner.state.current([name])[name]
            part = self._parts(self._rank.number).get(name)
            if part is not None:
                count = len(rows_of(part.rule, entry.shape[part.axis], part.tasks, part.task))
                array = array[(*(slice(None),) * part.axis, slice(0, count))]
            tensors.append(Saved(name, entry.dtype, array.shape, array))
        return tensors

    def restore(
        self, client: Client, names: Sequence[str], folder: Path, rename: object, only: object, *, best: bool
    ) -> ChosenCheckpoint:
        """Restores these names, all or none. Inside of something that is done together."""
        self.wait()
        entries, layouts = {**self._state.entries, **self._state.queues}, self._queues.layouts
        selected, chosen = restore.choose(
            entries,
            self._program,
            folder,
            names,
            rename,
            only,
            best=best,
            layouts=layouts,
            omitted=self._state.omitted,
        )

        self.read_again = ()

        def fill() -> None:
            for name, saved in chosen.items():
                if MARK not in name:
                    self._state.store(client, name, saved.array if saved.array.ndim else np.asarray(saved.array)[()])

        if any(MARK in name for name in chosen):
            self.read_again = self._queues.restore(client, folder, chosen, selected.checkpoint.about.ends, fill)
        else:
            fill()
        return selected


def _raise(problem: FileError) -> NoReturn:
    raise problem
