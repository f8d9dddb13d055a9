"""A record of a rank as a file in the folder of its job, and what its environment says of that job.

A supervisor tells its ranks the folder and its epoch. Guarantees that a record is there as a whole or not at all. The
parent of each rank needs no more than this, and is started as often as ranks are: nothing here takes long to import.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

JOB_VARIABLE, EPOCH_VARIABLE = "DFC_JOB", "DFC_EPOCH"
ALIVE = "alive"
"""The file that the supervisor holds open: where it is, the folder is shared with it."""


@cache
def host() -> str:
    """Where numbers of processes mean what they mean here."""
    try:
        names = os.readlink("/proc/self/ns/pid")
    except OSError:
        names = ""
    return f"{os.uname().nodename} {names}"


def current_epoch() -> int | None:
    """The epoch that a supervisor gave this process; None without one."""
    text = os.environ.get(EPOCH_VARIABLE, "")
    return int(text) if os.environ.get(JOB_VARIABLE) and text.isascii() and text.isdigit() else None


def current_job() -> str:
    """A name for the job this process belongs to, the same in all its sessions; "" without a supervisor."""
    return Path(os.environ[JOB_VARIABLE]).name if current_epoch() is not None else ""


def put(folder: Path, epoch: int, rank: int, kind: str, data: Mapping[str, object]) -> None:
    """A record as a file, which is there as a whole or not at all; `OSError` if the folder is gone."""
    temporary = folder / f"{epoch}-{rank}.{kind}-{threading.get_ident()}"
    temporary.write_text(json.dumps({**data, "time": time.monotonic_ns()}), encoding="utf-8")
    os.replace(temporary, folder / f"{epoch}-{rank}.{kind}")
