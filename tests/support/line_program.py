"""Feeds of `line.dfg`, and its state as bytes."""

from __future__ import annotations

import dfc_runtime

FEEDS = ("--feed", "x=data.npz:x", "--feed", "y=data.npz:y", "--feed", "rate=0.01")


def bits(folder: str) -> dict[str, bytes]:
    """The state in a folder of checkpoints."""
    model = dfc_runtime.load("line.bundle")
    model.restore(folder)
    return {name: model.state[name].tobytes() for name in model.state}
