"""Feeds of `line.dfg`, its state as bytes, and when a run of it has begun."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import dfc_runtime

FEEDS = ("--feed", "x=data.npz:x", "--feed", "y=data.npz:y", "--feed", "rate=0.01")


def bits(folder: str) -> dict[str, bytes]:
    """The state in a folder of checkpoints."""
    model = dfc_runtime.load("line.bundle")
    model.restore(folder)
    return {name: model.state[name].tobytes() for name in model.state}


def wait_for_handlers(pid: int) -> None:
    """Waits until a process catches SIGTERM, which it does only while it makes steps."""
    for _ in range(3000):
        status = Path(f"/proc/{pid}/status").read_text()
        caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)
    raise AssertionError("the run never began")
