"""Whether the entries that a deployment replicates can be: that they are there, and have what is cut."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.distribute.deployment.model import Deployment, Replicate
from dfc.distribute.deployment.syntax.settings import setting_alone
from dfc.distribute.pipelines.connected import queue_names, queues_of
from dfc.ir.graph import Entry, Graph
from dfc.ops.effects.effects import block_effects
from dfc.ops.record import Effect


def check_entries(deployment: Deployment, graph: Graph) -> Iterator[Diagnostic]:
    """A message for each replication that has no meaning, or is not supported yet."""
    seen: dict[str, Replicate] = {}
    for each in deployment.replications:
        entry = graph.entries.get(each.entry)
        if entry is not None and entry.apart is not None:
            entry = entry.apart.whole  # which takes from queues; what it was made into is fed
        yield from _unsupported(each)
        if entry is None:
            label = did_you_mean(closest(each.entry, graph.entries))
            notes = [f"the entries are {listed(graph.entries)}"] if graph.entries else []
            yield error("E0808", f"there is no entry `{each.entry}`", each.entry_span, label, notes=notes)
        elif each.mode == "independent":
            yield from _independent(each, entry)
        elif {*queue_names(each.split)} <= queues_of(entry):
            yield from _by_queue(each)
        else:
            yield from _split(each, entry)
        if each.entry in seen:
            title = f"`{each.entry}` is replicated twice"
            yield error("E0804", title, each.span, secondary=[(seen[each.entry].span, "the first line")])
        seen.setdefault(each.entry, each)


def _unsupported(each: Replicate) -> Iterator[Diagnostic]:
    if each.backups and each.mode not in ("backup", "independent"):
        title = f"there are no backup tasks in the mode `{each.mode}`: every task takes part in every step"
        helps = [_without(each, "backups")]
        note = 'they are there with `mode = "backup"`, for entries that read and update variables and do nothing else'
        yield error(NOT_SUPPORTED_YET, title, each.setting_span("backups"), notes=[note], helps=helps)


def _without(each: Replicate, name: str) -> Help:
    spans = [option.span for option in each.settings]
    number = next(number for number, option in enumerate(each.settings) if option.name == name)
    return replacing(f"leave `{name}` out", setting_alone(each.span, spans, number), "")


def _in_step(each: Replicate, entry: Entry | None) -> list[Help]:
    """How to let all tasks do their parts of each step, if there is something that can be cut."""
    span = each.setting_span("mode")
    if each.split:
        return [replacing('write `mode = "sync"`', span, 'mode = "sync"')]
    fed = _fed(entry) if entry is not None else []
    if len(fed) == 1:
        written = f'mode = "sync", split = "{fed[0]}"'
        return [replacing(f"write `{written}`", span, written)]
    return [f'write `mode = "sync", split = "..."`, with one of {listed(fed)}'] if fed else []


def _independent(each: Replicate, entry: Entry) -> Iterator[Diagnostic]:
    """A task that ran a writing entry by itself would have other state than its neighbours."""
    if entry.readonly or not any(value.is_token for value in entry.block.parameters):
        return
    title = f"`{each.entry}` may change state, which then would differ from task to task"
    secondary = [(entry.span, "is not `readonly`")]
    helps = _in_step(each, entry)
    if Effect.WRITE not in block_effects(entry.block):
        helps = [f"it changes nothing: declare it as `readonly entry {each.entry}`"]
    yield error("E0808", title, each.setting_span("mode"), secondary=secondary, helps=helps)


def _fed(entry: Entry) -> list[str]:
    """The dimensions that a feed decides."""
    return [symbol.name for symbol in entry.dims if symbol not in entry.dim_feeds]


def _by_queue(each: Replicate) -> Iterator[Diagnostic]:
    """Batches of a queue are there once for all tasks."""
    if each.mode == "backup":
        title = "batches of a queue are not supported in the mode `backup`: those of steps that come late would be lost"
        span = each.setting_span("mode")
        helps = [replacing('write `mode = "sync"`', span, 'mode = "sync"')]
        yield error(NOT_SUPPORTED_YET, title, span, helps=helps)


def _split(each: Replicate, entry: Entry) -> Iterator[Diagnostic]:
    dims = [symbol.name for symbol in entry.dims]
    fed = _fed(entry)
    span = each.setting_span("split")
    if each.split in fed or not each.split:
        return  # where none is written the parser has said so, unless there is no such mode yet
    declared = [(entry.span, f"its dimensions are {listed(dims)}" if dims else "it has no dimensions")]
    if each.split in dims:
        title = f"no feed of `{each.entry}` has an axis `{each.split}` that could be cut"
        yield error(
            "E0803", title, span, secondary=[(entry.span, "declared here")], helps=batches_of_queues(each, entry)
        )
        return
    title = f"`{each.split}` is not a dimension of `{each.entry}`"
    label = did_you_mean(closest(each.split, fed))
    written = f'split = "{closest(each.split, fed) or fed[0]}"' if label or len(fed) == 1 else ""
    helps = [replacing(f"write `{written}`", span, written)] if written else []
    yield error("E0803", title, span, label, secondary=declared, helps=helps or batches_of_queues(each, entry))


def batches_of_queues(each: Replicate, entry: Entry) -> list[Help]:
    """The help to cut what an entry takes out of queues instead, where it does and the mode can."""
    queues = sorted(queues_of(entry))
    if not queues or each.mode == "backup":
        return []
    setting = f'split = "{", ".join(queues)}"'
    named = f"the queue{'s' if len(queues) > 1 else ''} {' and '.join(f'`{queue}`' for queue in queues)}"
    return [
        replacing(
            f"to cut the batches that come out of {named}, write `{setting}`", each.setting_span("split"), setting
        )
    ]
