"""A folder of checkpoints: `step-1`, `step-2`, ... Publishing is atomic, and the newest that is whole is restored.

A save writes `step-N.tmp-<process>`, makes it durable, renames it, reads it back, and only then removes old ones: the
newest stay, at least two, and so does the one with the best score. Leftovers of processes that died, and checkpoints
that were being removed, are removed by the next save.

Assumes one program saves to a folder at a time; two that do lose nothing, but take numbers from each other. Guarantees
that what is removed lies in the folder: a link with the name of a checkpoint is read like one, and removed as a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path

from dfc_runtime.checkpoints import files, format, nearby
from dfc_runtime.checkpoints.files import DISK, Disk
from dfc_runtime.checkpoints.format import About, Checkpoint, Saved
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import CheckpointError, FeedError, FileError
from dfc_runtime.formats.fields import shown
from dfc_runtime.observation import observe

KEPT = 2
EPOCHS = "epochs"
"""A folder beside the checkpoints: a file for every session of ranks that saved here."""
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")
_LEFTOVER = re.compile(r"step-[0-9]{1,18}\.tmp-([0-9]{1,18})")
_ATTEMPTS = 100
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""What the system says of a folder that is to get a name which a folder, a file or a link has."""
_publishing = threading.Lock()
"""Leftovers are told apart by process, so threads of one take turns."""
_underway: set[Path] = set()
"""Folders of this process into which a checkpoint is being written meanwhile."""


@dataclass(frozen=True, slots=True)
class ChosenCheckpoint:
    """The checkpoint that was chosen, and ones before it in line that were not whole, each with its fault."""

    path: Path
    checkpoint: Checkpoint
    skipped: tuple[tuple[Path, str], ...]


def steps_in(folder: Path, disk: Disk = DISK) -> list[int]:
    """The numbers of the checkpoints, newest first. `FileError` if the folder cannot be read."""
    try:
        names = disk.names(folder)
    except OSError as problem:
        if problem.errno in _ABSENT:
            return []
        text = f"cannot read {shown(str(folder), 120)}: {problem.strerror or problem}"
        raise FileError(text, code="E0909") from None
    return sorted((int(m.group(1)) for name in names if (m := _STEP.fullmatch(name))), reverse=True)


def holds_nothing(folder: Path, disk: Disk = DISK) -> bool:
    """Whether a folder is empty, but for what saves that were interrupted have left, and the numbers of sessions."""
    return folder.is_dir() and all(_LEFTOVER.fullmatch(name) or name == EPOCHS for name in disk.names(folder))


def find(folder: Path, *, best: bool = False) -> ChosenCheckpoint:
    """The newest whole checkpoint of a folder, or with `best` that of the lowest score; or the checkpoint that the
    folder is. `CheckpointError` if there is none."""
    if os.path.lexists(folder / format.MANIFEST):
        return ChosenCheckpoint(folder, _read(folder), ())
    skipped: list[tuple[Path, str]] = []
    for step in by_score(folder) if best else steps_in(folder):
        path = folder / f"step-{step}"
        try:
            return ChosenCheckpoint(path, format.read(path), tuple(skipped))
        except (ValueError, OverflowError, FileError) as problem:
            skipped.append((path, problem.message if isinstance(problem, FileError) else str(problem)))
    if skipped:
        path, fault = skipped[0]
        more = f" (and {len(skipped) - 1} others)" if len(skipped) > 1 else ""
        raise CheckpointError(f"no checkpoint in {folder} is whole: {path.name}{more}: {fault}", code="E0908")
    raise CheckpointError(f"{folder} {_missing(folder, best)}", code="E0908")


def _missing(folder: Path, best: bool) -> str:
    if folder.is_dir():
        text = f"holds no checkpoint{' with a score' if best else ''}"
        return text + ("" if best else nearby.inside(folder, steps_in))
    if os.path.lexists(folder):
        return "is no folder, and checkpoints lie in folders"
    return f"does not exist{nearby.sibling_hint(folder, steps_in)}"


def by_score(folder: Path, disk: Disk = DISK) -> list[int]:
    """The numbers of the checkpoints that have a score, the best first; of equal ones the newer."""
    scored: list[tuple[float, int]] = []
    for step in steps_in(folder, disk):
        with contextlib.suppress(ValueError, OverflowError, FileError):
            score = format.about(folder / f"step-{step}").score
            if score is not None:
                scored.append((score, -step))
    return [-step for _, step in sorted(scored)]


def _read(folder: Path) -> Checkpoint:
    try:
        return format.read(folder)
    except (ValueError, OverflowError, FileError) as problem:
        reason = problem.message if isinstance(problem, FileError) else str(problem)
        raise CheckpointError(f"{shown(str(folder), 120)} is damaged: {reason}", code="E0908") from None


Contents = Callable[[Disk, Path, About], str]
"""Writes the files of tasks into a folder, durably, and gives the manifest that belongs to them."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A checkpoint that others are writing into the folder `temporary`, and that is to stand at `target`."""

    about: About
    temporary: Path
    target: Path


def begin(folder: Path, about: About, *, numbered: bool = False, keep: int | None = None, disk: Disk = DISK) -> Begun:
    """Makes the folder of a checkpoint that is written bit by bit, under its number. `finish` or `give_up` follows."""
    _check_kept(keep)
    require_folder_of_checkpoints(folder)
    with _publishing, _translated_errors(folder):
        _make_folders(folder, disk)
        about = replace(about, keep=keep if keep is not None else remembered(folder, disk))
        _remove_leftovers(folder, disk)
        number = about.step if numbered else _next_number(folder, disk)
        target, temporary = folder / f"step-{number}", folder / f"step-{number}.tmp-{os.getpid()}"
        if os.path.lexists(target):
            raise CheckpointError(f"{folder} has a checkpoint of step {number} already", code="E0908")
        disk.make_folder(temporary)
        _underway.add(temporary)
        return Begun(replace(about, step=number), temporary, target)


def finish(begun: Begun, manifest: str, disk: Disk = DISK) -> Path:
    """Publishes what was begun, all of whose files are durable; returns its path."""
    folder = begun.target.parent
    with _publishing, _translated_errors(folder):
        _underway.discard(begun.temporary)
        if not _complete(disk, begun.temporary, begun.target, lambda: manifest):
            raise CheckpointError(f"{folder} has a checkpoint of step {begun.about.step} already", code="E0908")
        return _looked_after(begun.target, begun.about.keep or KEPT, disk)


def give_up(begun: Begun, disk: Disk = DISK) -> None:
    """Removes what was written."""
    with _publishing:
        _underway.discard(begun.temporary)
        _remove(begun.temporary, disk)


def publish(
    folder: Path,
    about: About,
    state: Sequence[Saved] | Contents,
    *,
    numbered: bool = False,
    keep: int | None = None,
    disk: Disk = DISK,
) -> Path:
    """Writes a checkpoint and returns its path. Unless it is `numbered` it takes the number after the newest. `state`
    is what this process saves, or a function by which several do. The newest `keep` stay: as many as were said last for
    this folder, or else `KEPT`."""
    _check_kept(keep)
    require_folder_of_checkpoints(folder)
    contents = state if callable(state) else own_file(state)
    with _publishing:
        with _translated_errors(folder):
            _make_folders(folder, disk)
            _remove_leftovers(folder, disk)
            about = replace(about, keep=keep if keep is not None else remembered(folder, disk))
            path = _publish(folder, about, contents, numbered, disk)
        return _looked_after(path, about.keep or KEPT, disk)


def is_checkpoint(path: Path) -> bool:
    """Whether a folder is one checkpoint, whole or not, instead of holding some; or would be taken for one, by its name
    among others."""
    if _has_contents(path):
        return True
    return any(_is_named_as_one(each) for each in (path, Path(os.path.realpath(path))))


def _has_contents(path: Path) -> bool:
    return os.path.lexists(path / format.MANIFEST) or os.path.lexists(path / format.TASK_FILE)


def _is_named_as_one(path: Path) -> bool:
    if _STEP.fullmatch(path.name) is None or steps_in(path):
        return False
    others = (path.parent / f"step-{step}" for step in steps_in(path.parent))
    return any(os.path.lexists(other / format.MANIFEST) for other in others if other != path)


def checkpoint_around(path: Path) -> Path | None:
    """The checkpoint that a path lies in, or what a save has left of one: whatever is written there goes with it. The
    path itself is not asked about; it need not be there."""
    for start in (Path(os.path.abspath(path)), Path(os.path.realpath(path))):
        for each in start.parents:
            if _has_contents(each) or _LEFTOVER.fullmatch(each.name):
                return each
    return None


def require_folder_of_checkpoints(folder: Path) -> None:
    """`CheckpointError` where new checkpoints would lie inside of another one, and be lost with it."""
    if is_checkpoint(folder):
        text = f"{folder} is one checkpoint, and a new one lies beside it, not in it: save in {folder_of(folder)}"
        raise CheckpointError(text, code="E0908")
    around = checkpoint_around(folder)
    if around is not None:
        text = f"{folder} lies in the checkpoint {around}, and would be removed with it: save elsewhere"
        raise CheckpointError(text, code="E0908")


def folder_of(checkpoint: Path) -> Path:
    """Where a checkpoint and those beside it lie."""
    return checkpoint.parent if checkpoint.name not in ("", "..") else checkpoint.resolve().parent


def newest_about(folder: Path, disk: Disk = DISK) -> About | None:
    """What the newest checkpoint says of itself, of those that do; whether it is whole is not looked at."""
    for step in steps_in(folder, disk):
        with contextlib.suppress(ValueError, OverflowError, FileError):
            return format.about(folder / f"step-{step}")
    return None


def remembered(folder: Path, disk: Disk = DISK) -> int | None:
    """How many checkpoints are to stay in a folder, as its newest one says; None if it does not."""
    newest = newest_about(folder, disk)
    return None if newest is None else newest.keep


def _check_kept(keep: int | None) -> None:
    if keep is not None and (isinstance(keep, bool) or keep < KEPT):
        text = f"keep wants a number of checkpoints, at least {KEPT}: while one is written, another must be whole"
        raise FeedError(text, code="E0901")


@contextlib.contextmanager
def _translated_errors(folder: Path) -> Generator[None]:
    """What the file system refuses, as a user reads it."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise FileError(f"cannot save a checkpoint in {folder}: {reason}", code="E0909") from None


def own_file(state: Sequence[Saved]) -> Contents:
    """One file with all of it."""

    def write(disk: Disk, folder: Path, about: About) -> str:
        contents = format.task_file(state)
        files.write_file(disk, folder / format.TASK_FILE, contents)
        return format.manifest_text(about, state, contents)

    return write


def _looked_after(path: Path, keep: int, disk: Disk) -> Path:
    """Reads back what was published, and then removes what is too old."""
    fault = format.problem_of(path)
    if fault is not None:
        raise CheckpointError(f"{path} was written, but reads back wrong: {fault}", code="E0908")
    observe(f"verified {path.name}")
    with contextlib.suppress(OSError):
        _remove_old(path.parent, int(path.name[5:]), keep, disk)
    return path


def _publish(folder: Path, about: About, contents: Contents, numbered: bool, disk: Disk) -> Path:
    for _ in range(_ATTEMPTS):
        number = about.step if numbered else _next_number(folder, disk)
        target = folder / f"step-{number}"
        temporary = folder / f"step-{number}.tmp-{os.getpid()}"
        if not os.path.lexists(target) and _write(disk, temporary, target, replace(about, step=number), contents):
            return target
        if numbered:
            raise CheckpointError(f"{folder} has a checkpoint of step {number} already", code="E0908")
    raise CheckpointError(f"other processes keep saving to {folder}", code="E0908")


def _next_number(folder: Path, disk: Disk) -> int:
    """The number after the newest, those among them that are being written here."""
    numbers = [int(path.name[5:].partition(".")[0]) for path in _underway if path.parent == folder]
    return max([*steps_in(folder, disk)[:1], *numbers], default=0) + 1


def _write(disk: Disk, temporary: Path, target: Path, about: About, contents: Contents) -> bool:
    """Whether the checkpoint stands under its name; False if somebody else took the name."""
    try:
        disk.make_folder(temporary)
    except FileExistsError:
        return False
    return _complete(disk, temporary, target, lambda: contents(disk, temporary, about))


def _complete(disk: Disk, temporary: Path, target: Path, manifest: Callable[[], str]) -> bool:
    """Writes the manifest of files that are there, and gives the folder its name."""
    try:
        files.write_file(disk, temporary / format.MANIFEST, [manifest().encode()])
        disk.sync_folder(temporary)
        disk.rename(temporary, target)
        disk.sync_folder(target.parent)
    except OSError as problem:
        _remove(temporary, disk)
        if problem.errno in _TAKEN and os.path.lexists(target):
            return False
        raise
    except BaseException:
        _remove(temporary, disk)
        raise
    return True


def _remove(temporary: Path, disk: Disk) -> None:
    """Removes the folder of a checkpoint that does not come about."""
    with contextlib.suppress(OSError), files.opened(disk, temporary.parent) as folder:
        files.remove_tree(disk, folder, temporary.name)


def _make_folders(folder: Path, disk: Disk) -> None:
    """The folder and those above it, each of them durable."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            disk.make_folder(each)
        disk.sync_folder(each.parent)


def _remove_old(folder: Path, newest: int, keep: int, disk: Disk) -> None:
    """Removes what is older than the newest `keep`, but for the best. A name goes first, so that what is half removed
    is no checkpoint; what resists is left for the next save."""
    older = [number for number in steps_in(folder, disk) if number < newest][keep - 1 :]
    best = by_score(folder, disk)[:1] if older else []
    if not older:
        return
    with files.opened(disk, folder) as inside:
        for name in (f"step-{number}" for number in older if number not in best):
            observe(f"remove {name}")
            dying = f"{name}.tmp-{os.getpid()}"
            with contextlib.suppress(OSError):
                disk.rename_inside(inside, name, dying)
                files.remove_tree(disk, inside, dying)


def _remove_leftovers(folder: Path, disk: Disk, alive: Callable[[int], bool] | None = None) -> None:
    with files.opened(disk, folder) as inside:
        for name in disk.names_inside(inside):
            match = _LEFTOVER.fullmatch(name)
            if match and folder / name not in _underway and not (alive or _is_alive)(int(match.group(1))):
                files.remove_tree(disk, inside, name)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()
