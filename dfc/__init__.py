"""A compiler from dataflow graphs in text to native code.

    import dfc

    bundle = dfc.compile("model.dfg", settings={"WIDTH": 512})
    bundle.save("model.bundle")
    model = dfc.load("model.bundle")
    loss, accuracy = model.train(images=x, labels=y, rate=0.1)

Names are imported when they are first used: `import dfc` itself takes a few milliseconds.

In: a program as text. Out: a bundle, a loaded module, or messages. Read `driver/api` first: what the commands of
`cli` and callers in Python use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dfc.bundle.writing import Bundle
    from dfc.diagnostics.diagnostic import CompileError
    from dfc.driver.api import compile
    from dfc_runtime.errors import (
        BundleError,
        CheckpointError,
        DfcError,
        EndOfData,
        FeedError,
        FileError,
        LimitError,
        RankError,
        RunError,
        UnsupportedError,
        WaitError,
    )
    from dfc_runtime.inspection import inspect, verify
    from dfc_runtime.loading import load, loads
    from dfc_runtime.module import Module

from dfc.version import __version__

__all__ = [
    "Bundle",
    "BundleError",
    "CheckpointError",
    "CompileError",
    "DfcError",
    "EndOfData",
    "FeedError",
    "FileError",
    "LimitError",
    "Module",
    "RankError",
    "RunError",
    "UnsupportedError",
    "WaitError",
    "__version__",
    "compile",
    "inspect",
    "load",
    "loads",
    "verify",
]

_MODULES = {"Bundle": "dfc.bundle.writing", "CompileError": "dfc.diagnostics.diagnostic", "compile": "dfc.driver.api"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES.get(name, "dfc_runtime")), name)
    globals()[name] = value
    return value
