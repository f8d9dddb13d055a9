"""Runs bundles: programs that dfc compiled. Needs NumPy and nothing of the compiler.

    import dfc_runtime

    model = dfc_runtime.load("model.bundle")
    loss, accuracy = model.train(images=x, labels=y, rate=0.1)

Names are imported when they are first used, so that looking at a bundle needs no NumPy.

In: a bundle. Out: a `Module` whose entries are called. Read first: `loading`, then `one_rank` and `module`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dfc_runtime.errors import (
        BundleError,
        CheckpointError,
        DfcError,
        EndOfData,
        FeedError,
        FileError,
        LimitError,
        RankError,
        RecordError,
        RunError,
        UnsupportedError,
        WaitError,
    )
    from dfc_runtime.inspection import Inspection, inspect, verify
    from dfc_runtime.loading import load, loads
    from dfc_runtime.module import Module, ModuleEntry

__all__ = [
    "BundleError",
    "CheckpointError",
    "DfcError",
    "EndOfData",
    "FeedError",
    "FileError",
    "Inspection",
    "LimitError",
    "Module",
    "ModuleEntry",
    "RankError",
    "RecordError",
    "RunError",
    "UnsupportedError",
    "WaitError",
    "inspect",
    "load",
    "loads",
    "verify",
]

_MODULES = {
    "Inspection": "inspection",
    "inspect": "inspection",
    "verify": "inspection",
    "load": "loading",
    "loads": "loading",
    "Module": "module",
    "ModuleEntry": "module",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"dfc_runtime.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
