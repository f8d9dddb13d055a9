"""A loaded program with further declarations: compiled anew, with a copy of the state.

The compiler is an optional companion, as for parts of entries (`partial`). Assumes a bundle that carries its sources.
Guarantees that the program which is extended is as it was, whatever goes wrong; and that the new one has all of its
state, also what no checkpoint has, and the elements in its queues.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Protocol, cast

from dfc_runtime.calls.compiling.origin import Origin
from dfc_runtime.calls.compiling.partial import Build, import_compiler
from dfc_runtime.formats.manifest import QUEUE, Manifest
from dfc_runtime.kinds import require_kind
from dfc_runtime.state.state import State

COMPILER = "dfc.driver.loaded.extension"


def extended_bundle(origin: Origin, build: Build, text: str) -> bytes:
    """The bundle of the program with `text` behind it."""
    require_kind(text, str, "extend wants the text of further declarations")
    import_compiler(origin.sources)
    compiled = cast("Callable[..., bytes]", import_module(COMPILER).extended)
    return compiled(origin.sources, origin.settings, origin.target, origin.isa, build, text)


class Stateful(Protocol):
    """What of a module is about its state."""

    @property
    def manifest(self) -> Manifest: ...

    @property
    def state(self) -> State: ...

    def save(self, path: str, /) -> object: ...

    def restore(self, path: str, /, *, only: object) -> object: ...


def copy_state(source: Stateful, target: Stateful) -> None:
    """Sets what both programs have to what it is in `source`."""
    entries = source.manifest.state
    in_checkpoints = [entry.name for entry in entries if entry.saved or entry.kind == QUEUE]
    if in_checkpoints:
        with TemporaryDirectory(prefix="dfc-") as folder:
            source.save(folder)
            target.restore(folder, only=in_checkpoints)
    for entry in entries:
        if entry.name not in in_checkpoints:
            target.state[entry.name] = source.state[entry.name]
