"""Checkpoints of a program on many ranks: each rank writes what it owns, rank 0 publishes, any number can restore.

Assumes a folder that all ranks share. Guarantees what checkpoints of one rank guarantee (atomic, durable, read back
before the oldest goes); that a session which another one has replaced publishes nothing; and that what is restored is
the same state, wherever it was and wherever it goes: rank 0 reads and checks all of it before any rank is told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.checkpoints import files, format, restore, store
from dfc_runtime.checkpoints.files import DISK, Disk
from dfc_runtime.checkpoints.format import About
from dfc_runtime.checkpoints.parts import Part, Saved, TaskFile
from dfc_runtime.checkpoints.saving import Wish
from dfc_runtime.checkpoints.store import Found
from dfc_runtime.distributed import epochs
from dfc_runtime.distributed.client import Client
from dfc_runtime.distributed.comm import Array
from dfc_runtime.distributed.records import current_epoch
from dfc_runtime.distributed.shards import rows_of
from dfc_runtime.errors import DfcError, FileError, RankError
from dfc_runtime.formats.fields import items, mapping, text

if TYPE_CHECKING:
    from dfc_runtime.distributed.cluster_state import SpreadState
    from dfc_runtime.distributed.rank import Answer, Data, Rank

WRITE = "checkpoint.write"


class ClusterSaver:
    """Saves and restores the state of all ranks; one on each of them, rank 0's is asked."""

    def __init__(self, rank: Rank, state: SpreadState, program: str) -> None:
        self._rank = rank
        self._state = state
        self._program = program
        rank.commands[WRITE] = self._write_own

    def save(self, client: Client, names: Sequence[str], asked: Wish) -> Path:
        """Saves these names. Inside of something that is done together."""
        about = About(asked.step or 0, self._program, asked.best, asked.progress)

        def contents(disk: Disk, folder: Path, about: About) -> str:
            manifest = self._manifest(client, names, folder, about)
            self._check_epoch(asked.folder)
            return manifest

        return store.publish(asked.folder, about, contents, numbered=asked.step is not None, keep=asked.keep)

    def _manifest(self, client: Client, names: Sequence[str], folder: Path, about: About) -> str:
        """Has every rank write its file."""
        answers = client.command({"command": WRITE, "folder": str(folder.resolve()), "names": list(names)})
        written = {rank: _file(data, self._parts(rank)) for rank, (data, _) in answers.items() if data["size"]}
        types = {name: (entry.dtype, entry.shape) for name, entry in self._state.entries.items() if name in names}
        ordered = [written[rank] for rank in sorted(written)]
        numbers = {rank: number for number, rank in enumerate(sorted(written))}
        for rank, number in numbers.items():
            if rank != number:  # files are numbered without gaps: not every rank has something of its own
                DISK.rename(folder / format.task_name(rank), folder / format.task_name(number))
        return format.manifest_of(about, types, {format.task_name(n): file for n, file in enumerate(ordered)})

    def _check_epoch(self, folder: Path) -> None:
        """Refuses to publish for a session that was given up."""
        mine = current_epoch()
        if mine is not None and epochs.newest(folder) > mine:
            raise RankError(f"{folder} belongs to a later session: this one, epoch {mine}, saves no more", code="E0911")

    def _parts(self, rank: int) -> dict[str, Part]:
        """Which rows a rank has of what is sharded."""
        found: dict[str, Part] = {}
        for name in self._state.entries:
            rule, axis, owners = self._state.spread(name)
            if rule and rank in owners:
                found[name] = Part(rule, axis, len(owners), owners.index(rank))
        return found

    def _write_own(self, data: Data, _: list[Array]) -> Answer:
        """One rank's file, if it owns anything."""
        folder = Path(text(data["folder"], "folder"))
        wanted = {text(name, "name") for name in items(data["names"], "names")}
        own = [self._own(name) for name in sorted(self._state.owned()) if name in wanted]
        if not own:
            return {"size": 0}, []
        contents = format.task_file(own)
        try:
            files.write_file(DISK, folder / format.task_name(self._rank.number), contents)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise FileError(f"cannot save a checkpoint in {folder.parent}: {reason}", code="E0909") from None
        digest = hashlib.sha256()
        for piece in contents:
            digest.update(piece)
        size = sum(len(piece) for piece in contents)
        types = {saved.name: [saved.dtype, *saved.shape] for saved in own}
        return {"size": size, "sha256": digest.hexdigest(), "state": types}, []

    def _own(self, name: str) -> Saved:
        """What this rank has of it, without the room of a shard that holds no row."""
        assert self._rank.inner is not None
        entry, array = self._state.entries[name], self._rank.inner.state.current([name])[name]
        part = self._parts(self._rank.number).get(name)
        if part is not None:
            count = len(rows_of(part.rule, entry.shape[part.axis], part.tasks, part.task))
            array = array[(*(slice(None),) * part.axis, slice(0, count))]
        return Saved(name, entry.dtype, array.shape, array)

    def restore(
        self, client: Client, names: Sequence[str], folder: Path, rename: object, only: object, *, best: bool
    ) -> Found:
        """Restores these names, all or none. Inside of something that is done together."""
        found, chosen = restore.choose(self._state.entries, self._program, folder, names, rename, only, best=best)
        for name, saved in chosen.items():
            self._state.store(client, name, saved.array if saved.array.ndim else np.asarray(saved.array)[()])
        return found


def _file(data: Mapping[str, object], parts: Mapping[str, Part]) -> TaskFile:
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, told in mapping(data["state"], "state").items():
        dtype, *shape = items(told, "state")
        types[name] = (text(dtype, "type"), tuple(int(str(size)) for size in shape))
    return TaskFile(
        int(str(data["size"])), text(data["sha256"], "hash"), types, {n: parts[n] for n in types if n in parts}
    )


class Done:
    """A save that is over when one asks; like one that goes on by itself, for whoever waits for that."""

    def __init__(self, path: Path | None, problem: DfcError | None) -> None:
        self._path = path
        self._problem = problem

    @property
    def done(self) -> bool:
        return True

    def wait(self, _timeout: float | None = None) -> bool:
        """It is done."""
        return True

    def result(self, _timeout: float | None = None) -> Path:
        """Where the checkpoint lies; raises what went wrong."""
        if self._problem is not None:
            raise self._problem
        assert self._path is not None
        return self._path
