"""Epochs: a number that rises with every session of a job, taken by creating a file that nobody else can create.

A rank that publishes a checkpoint looks whether a higher epoch exists; if so, another session has taken over, and it
stops. Assumes a folder all ranks share. Guarantees that no two sessions have the same epoch, and that it only rises.
"""

from __future__ import annotations

import os
from pathlib import Path

from dfc_runtime.checkpoints.store import EPOCHS as FOLDER
from dfc_runtime.errors import RankError


class ReplacedError(RankError):
    """Another session has taken over the folder of this one, which is to end: what it computes is saved nowhere."""


def check(folder: Path, mine: int | None) -> None:
    """Refuses to publish for a session that another one has replaced; None is one without a supervisor."""
    if mine is not None and newest(folder) > mine:
        text = f"another run saves in {folder} now: this one (session {mine}, the other is {newest(folder)}) ends"
        raise ReplacedError(text, code="E0911")


def take(folder: Path) -> int:
    """The next epoch of a folder of checkpoints, taken for good."""
    epochs = folder / FOLDER
    epochs.mkdir(parents=True, exist_ok=True)
    number = newest(folder)
    while True:
        number += 1
        try:
            descriptor = os.open(epochs / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        os.fsync(descriptor)
        os.close(descriptor)
        return number


def newest(folder: Path) -> int:
    """The highest epoch taken so far, 0 if none was."""
    try:
        names = os.listdir(folder / FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 19), default=0)
