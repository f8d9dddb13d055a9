"""Checkpoints that entries of a program save and restore.

Assumes that the call that makes the request runs alone. Guarantees what `Module.save` and `Module.restore` guarantee.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.checkpoints import restore as checkpoints
from dfc_runtime.checkpoints.saving import Saver, SaveRequest
from dfc_runtime.checkpoints.store import ChosenCheckpoint
from dfc_runtime.formats.manifest import RESTORE, SAVE
from dfc_runtime.state.state import State


def checkpoint_handlers(state: State, saver: Saver) -> Mapping[str, Handler]:
    """Handlers for the requests of one program."""

    def save(request: HostRequest) -> None:
        saver.save(_names(state, request), SaveRequest(_path(request)))

    def restore(request: HostRequest) -> None:
        saver.wait()
        rename, only = request.call.options.get("rename"), request.call.options.get("only")
        names = _names(state, request)
        path, pipeline = _path(request), saver.pipeline
        warn_of_skipped(checkpoints.restore(state, request.module, path, names, rename, only, pipeline=pipeline))

    return {SAVE: save, RESTORE: restore}


def warn_of_skipped(checkpoint: ChosenCheckpoint) -> None:
    """What was damaged, so that an older checkpoint was taken."""
    for path, fault in checkpoint.skipped:
        warnings.warn(f"skipped the checkpoint {path}: {fault}", stacklevel=3)


def _path(request: HostRequest) -> Path:
    number = request.site.attributes["path"]
    assert isinstance(number, int)
    return Path(request.call.texts[number])


def _names(state: State, request: HostRequest) -> list[str]:
    names = request.site.attributes["resources"]
    assert isinstance(names, tuple)
    return [name for name in names if state.entries[name].saved]
