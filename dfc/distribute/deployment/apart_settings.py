"""Settings of modes in which tasks do not wait for each other: how far ahead one may be, and how many are not waited
for."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.deployment.settings import Settings
from dfc_runtime.errors import counted

_MODES = {"bound": "stale", "backups": "backup"}
_MISSING = {
    "bound": "it is not said how many steps a task may be ahead of the others",
    "backups": "it is not said how many tasks are not waited for",
}


def apart_mistakes(each: Replicate, tasks: int, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with them; `backups` of a step that all take together are reported with the entry."""
    for name, mode in _MODES.items():
        written = settings.find(name)
        if each.mode == mode and written is None:
            helps = [settings.added(f"{name} = 1")]
            yield error("E0181", _MISSING[name], each.setting_span("mode"), helps=helps)
        elif each.mode not in (mode, "independent") and written is not None and name == "bound":
            helps = [settings.without(name, f"delete `{name}`")]
            yield error("E0181", f"`{name}` is for the mode `{mode}`", each.setting_span(name), helps=helps)
    if each.mode == "backup" and each.backups:
        yield from _backup_mistakes(each, tasks)


def _backup_mistakes(each: Replicate, tasks: int) -> Iterator[Diagnostic]:
    if each.backups >= tasks:
        title = f"`{each.job}` has {counted(tasks, 'task')}, and steps wait for all but {each.backups}: for none"
        yield error("E0181", title, each.setting_span("backups"))
    elif each.blocks % tasks:
        title = f"`{each.job}` has {counted(tasks, 'task')}, which do not share {counted(each.blocks, 'block')} evenly"
        near = each.blocks // tasks * tasks
        helps = [replacing(f"write `blocks = {near}`", each.setting_span("blocks"), f"blocks = {near}")]
        yield error("E0181", title, each.setting_span("blocks"), helps=helps)
