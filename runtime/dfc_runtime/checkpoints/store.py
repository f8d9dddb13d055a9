"""A folder of checkpoints: `step-1`, `step-2`, ... Publishing is atomic, and the newest that is whole is restored.

A save writes `step-N.tmp-<process>`, makes it durable, renames it, reads it back, and only then removes old ones, at
least two being kept. Leftovers of processes that died are removed by the next save.

Assumes one program saves to a folder at a time; two that do lose nothing, but take numbers from each other.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dfc_runtime.checkpoints import files, format
from dfc_runtime.checkpoints.format import Checkpoint, Saved
from dfc_runtime.errors import CheckpointError, FileError
from dfc_runtime.formats.fields import shown
from dfc_runtime.observation import observe

KEPT = 2
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")
_LEFTOVER = re.compile(r"step-[0-9]{1,18}\.tmp-([0-9]{1,18})")
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Found:
    """The checkpoint that was chosen, and newer ones that were not whole, each with its fault."""

    path: Path
    checkpoint: Checkpoint
    skipped: tuple[tuple[Path, str], ...]


def steps_in(folder: Path) -> list[int]:
    """The numbers of the checkpoints, newest first."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(m.group(1)) for name in names if (m := _STEP.fullmatch(name))), reverse=True)


def find(folder: Path) -> Found:
    """The newest whole checkpoint of a folder, or the checkpoint the folder is. `CheckpointError` if there is none."""
    if (folder / format.MANIFEST).is_file():
        return Found(folder, _read(folder), ())
    skipped: list[tuple[Path, str]] = []
    for step in steps_in(folder):
        path = folder / f"step-{step}"
        try:
            return Found(path, format.read(path), tuple(skipped))
        except (ValueError, OverflowError, FileError) as problem:
            skipped.append((path, str(problem)))
    if skipped:
        path, fault = skipped[0]
        more = f" (and {len(skipped) - 1} older ones)" if len(skipped) > 1 else ""
        raise CheckpointError(f"no checkpoint in {folder} is whole: {path.name}{more}: {fault}", code="E0908")
    what = "holds no checkpoint" if folder.is_dir() else "does not exist"
    raise CheckpointError(f"{folder} {what}", code="E0908")


def _read(folder: Path) -> Checkpoint:
    try:
        return format.read(folder)
    except (ValueError, OverflowError) as problem:
        raise CheckpointError(f"{shown(str(folder), 120)} is damaged: {problem}", code="E0908") from None


def publish(folder: Path, program: str, state: Sequence[Saved], step: int | None = None) -> Path:
    """Writes a checkpoint and returns its path. With no step stated it takes the number after the newest."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        path = _publish(folder, program, state, step)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise FileError(f"cannot save a checkpoint in {folder}: {reason}", code="E0909") from None
    fault = format.problem_of(path)
    if fault is not None:
        raise CheckpointError(f"{path} was written, but reads back wrong: {fault}", code="E0908")
    observe(f"verified {path.name}")
    for old in [number for number in steps_in(folder) if number < int(path.name[5:])][KEPT - 1 :]:
        observe(f"remove step-{old}")
        files.remove_folder(folder / f"step-{old}")
    return path


def _publish(folder: Path, program: str, state: Sequence[Saved], step: int | None) -> Path:
    for _ in range(_ATTEMPTS):
        number = step if step is not None else next(iter(steps_in(folder)), 0) + 1
        target = folder / f"step-{number}"
        temporary = folder / f"step-{number}.tmp-{os.getpid()}"
        if not target.exists() and _write(temporary, target, program, state, number):
            return target
        if step is not None:
            raise CheckpointError(f"{folder} has a checkpoint of step {step} already", code="E0908")
    raise CheckpointError(f"other processes keep saving to {folder}", code="E0908")


def _write(temporary: Path, target: Path, program: str, state: Sequence[Saved], step: int) -> bool:
    """Whether the checkpoint stands under its name; False if somebody else took the name."""
    try:
        files.make_folder(temporary)
        contents = format.task_file(state)
        files.write_file(temporary / format.TASK_FILE, contents)
        text = format.manifest_text(step, program, state, contents)
        files.write_file(temporary / format.MANIFEST, [text.encode()])
        files.sync_folder(temporary)
        files.rename(temporary, target)
        files.sync_folder(target.parent)
    except OSError as problem:
        files.remove_folder(temporary)
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    except BaseException:
        files.remove_folder(temporary)
        raise
    return True


def _remove_leftovers(folder: Path, alive: Callable[[int], bool] | None = None) -> None:
    for name in os.listdir(folder):
        match = _LEFTOVER.fullmatch(name)
        if match and not (alive or _is_alive)(int(match.group(1))):
            files.remove_folder(folder / name)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()
