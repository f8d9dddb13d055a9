"""A checkpoint of all ranks that is written while they go on: each writes its copy, rank 0 publishes what is whole.

    rank 2: task-1.safetensors, durable, then task-1.json        its completion record: size, hash, what is in it
    rank 0: waits for all records, removes them, writes manifest.json, renames the folder

Threads write, and a communicator belongs to one thread; so what ranks tell each other is in the folder, which all of
them share. Assumes that nobody else writes there. Guarantees that nothing is published before every part is durable;
and that whoever waits gets an end: an error of any rank, or of the file system, or of a rank whose file stands still.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dfc_runtime.checkpoints import files, format, store
from dfc_runtime.checkpoints.files import DISK
from dfc_runtime.checkpoints.format import Ends
from dfc_runtime.checkpoints.parts import Part, Saved, TaskFile
from dfc_runtime.checkpoints.store import Begun
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import CheckpointError, DfcError, FileError, RankError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, items, mapping, text

_PAUSE = 0.01
"""Seconds between two looks into a folder."""
_LAG = 2.0
"""Seconds that a new name may take to be seen from another machine."""
_LONGEST_RECORD = 1 << 24


@dataclass(frozen=True, slots=True)
class Written:
    """What a rank says of the file it has written."""

    size: int
    sha256: str
    state: Mapping[str, tuple[str, tuple[int, ...]]]
    ends: Ends = Ends()

    def task_file(self, parts: Mapping[str, Part]) -> TaskFile:
        """Its line in a manifest; `parts` are the rows the rank has of what is sharded."""
        return TaskFile(self.size, self.sha256, self.state, {name: parts[name] for name in self.state if name in parts})

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        types = {name: [dtype, *shape] for name, (dtype, shape) in self.state.items()}
        ends = {"closed": [*self.ends.closed], "ended": [*self.ends.runners]}
        return {"size": self.size, "sha256": self.sha256, "state": types, **ends}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Written:
        """From plain data; `ValueError` if it is something else."""
        types: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, signature in mapping(data["state"], "state").items():
            dtype, *shape = items(signature, "state")
            types[name] = (text(dtype, "type"), tuple(integer(axis, "axis") for axis in shape))
        closed, ended = (tuple(text(each, key) for each in items(data[key], key)) for key in ("closed", "ended"))
        return cls(integer(data["size"], "size"), text(data["sha256"], "hash"), types, Ends(closed, ended))


def write_file(path: Path, own: Sequence[Saved], ends: Ends) -> Written:
    """One rank's file, durable; `FileError` if it cannot be written."""
    contents = format.task_file(own)
    try:
        files.write_file(DISK, path, contents)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise FileError(f"cannot save a checkpoint in {path.parent.parent}: {reason}", code="E0909") from None
    digest = hashlib.sha256()
    for piece in contents:
        digest.update(piece)
    types = {saved.name: (saved.dtype, saved.shape) for saved in own}
    return Written(sum(len(piece) for piece in contents), digest.hexdigest(), types, ends)


def write_part(folder: Path, number: int, own: Sequence[Saved], ends: Ends) -> None:
    """File `number` and its record; or a record of what went wrong, which is raised, too."""
    try:
        written = write_file(folder / format.task_name(number), own, ends)
        files.replace_file(_record(folder, number), [strict_json.dump(written.to_json()).encode()])
    except Exception as problem:
        _note_failure(folder, number, problem.message if isinstance(problem, DfcError) else repr(problem))
        raise


def _note_failure(folder: Path, number: int, reason: str) -> None:
    path = _failed(folder, number)
    try:
        files.replace_file(path, [reason.encode()])
    except OSError:
        with contextlib.suppress(OSError):  # a full disk has room for a name
            path.touch()


def watched(begun_at: Path, write: Callable[[], None] | None, target: Path) -> Path:
    """Writes the part of a rank other than 0, if it has one. Where rank 0 has published what stands in the folder."""
    if write is not None:
        write()
    while begun_at.exists() and not target.exists():
        time.sleep(_PAUSE)
    end = time.monotonic() + _LAG
    while not target.exists() and time.monotonic() < end:
        time.sleep(_PAUSE)
    if not target.exists():
        raise CheckpointError(f"{target.name} was not published: rank 0 knows why", code="E0908")
    return target


def collected(begun: Begun, writers: Sequence[str], seconds: float) -> list[Written]:
    """What all `writers` (their names, in the order of their files) have written, when nobody writes any more. A rank
    that has not finished, and whose file has not grown for so many `seconds`, is a `RankError`."""
    folder, numbers = begun.temporary, range(len(writers))
    done: set[int] = set()
    moved, size = time.monotonic(), -1
    while len(done) < len(writers):
        done = {n for n in numbers if _record(folder, n).exists() or _failed(folder, n).exists()}
        now = sum(_size(folder / format.task_name(number)) for number in numbers) + len(done)
        if now != size:
            moved, size = time.monotonic(), now
        elif time.monotonic() - moved > seconds:
            missing = writers[min({*numbers} - done)]
            text_ = f"{missing} has not written its part of {begun.target.name}, and nothing moved for {seconds:g} s"
            raise RankError(text_, code="E0911")
        time.sleep(_PAUSE)
    for number in numbers:
        if _failed(folder, number).exists():
            raise FileError(_reason(folder, number, writers[number]), code="E0909")
    return [_read(_record(folder, number)) for number in numbers]


def published(
    begun: Begun,
    write: Callable[[], None] | None,
    writers: Sequence[str],
    manifest: Callable[[Sequence[Written]], str],
    seconds: float,
) -> Path:
    """Writes the part of rank 0, if it has one, waits for those of all writers, and publishes them under a manifest.
    Nothing is left of what fails."""
    try:
        try:
            if write is not None:
                write()
        except BaseException as own:
            with contextlib.suppress(DfcError):  # what others are writing to is not taken from them
                collected(begun, writers, seconds)
            if isinstance(own, FileError):
                raise FileError(f"{writers[0]}: {own.message}", code=own.code) from None
            raise
        written = collected(begun, writers, seconds)
        with files.opened(DISK, begun.temporary) as folder:
            for number in range(len(writers)):
                DISK.remove(folder, _record(begun.temporary, number).name)
        text_ = manifest(written)
    except BaseException:
        store.give_up(begun)
        raise
    return store.finish(begun, text_)


def _record(folder: Path, number: int) -> Path:
    return folder / f"task-{number}.json"


def _failed(folder: Path, number: int) -> Path:
    return folder / f"task-{number}.failed"


def _reason(folder: Path, number: int, name: str) -> str:
    with contextlib.suppress(OSError):
        reason = _failed(folder, number).read_text()
        if reason:
            return f"{name}: {reason}"
    return f"{name} could not save its part of a checkpoint in {folder.parent}, nor say why: the disk may be full"


def _read(path: Path) -> Written:
    with path.open("rb") as file:
        contents = file.read(_LONGEST_RECORD)
    return Written.from_json(mapping(strict_json.parse(contents.decode()), path.name))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
