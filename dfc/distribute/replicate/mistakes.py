"""Messages about entries that cannot be replicated as a deployment file says."""

from __future__ import annotations

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error, warning
from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Replicate
from dfc.ir.dims import Dim
from dfc.ir.graph import Entry, Node, Value
from dfc.ops.effects.queues import TAKE
from dfc.ops.rules.lookup import rules_of

NO_SUCH_SIZE = "E0803"
COMBINE = "E0831"
UNCLEAR = "W0831"


def no_such_size(statement: Replicate, entry: Entry) -> Diagnostic:
    """`split` names no size of the entry."""
    return error(
        NO_SUCH_SIZE,
        f"`{entry.name}` has no size `{statement.split}` that could be split",
        statement.setting_span("split"),
        secondary=[(entry.span, f"its sizes are {_listed(entry)}" if entry.dims else "it has no sizes of its own")],
        helps=[
            replacing(f'write `split = "{each}"`', statement.setting_span("split"), f'split = "{each}"')
            for each in entry.dims
            if each not in entry.dim_feeds
        ],
    )


def no_feed(statement: Replicate, entry: Entry) -> Diagnostic:
    """No feed has an axis of the size."""
    return error(
        NO_SUCH_SIZE,
        f"no feed of `{entry.name}` has an axis of size {statement.split}, so there is nothing to split",
        statement.setting_span("split"),
        secondary=[(entry.span, "the entry")],
    )


def _listed(entry: Entry) -> str:
    return ", ".join(str(each) for each in entry.dims)


def differs_between_tasks(statement: Replicate, node: Node) -> Diagnostic:
    """What each task would do for itself, and not as the others."""
    return error(
        NOT_SUPPORTED_YET,
        f"a replicated entry that {rules_of(node).alone} is not supported yet: each task would do it by itself",
        node.span,
        secondary=[(statement.entry_span, "replicated here")],
        helps=["do it in an entry that is not replicated"],
    )


def uneven_takes(statement: Replicate, node: Node, size: Dim | None) -> Diagnostic:
    """What is taken from a queue is no batch of so many rows."""
    secondary = [(statement.setting_span("split"), f"its batches are to be cut into {statement.blocks} blocks")]
    rows = "no number of rows that all fields have" if size is None else f"{size} rows"
    title = f"a take of `{statement.entry}` gives {rows}, which cannot be cut into {statement.blocks} blocks"
    if node.op != TAKE:
        title = f"`take_up_to` of `{statement.entry}` may give fewer rows, which cannot be cut into blocks"
        return error(NOT_SUPPORTED_YET, title, node.span, secondary=secondary, helps=["take whole batches: `take(n)`"])
    helps = ["let `blocks` in the deployment file divide the number of rows"] if size is not None else []
    if size is not None and size.constant is None:
        helps = [f"take as many as is known when the program is compiled: a number or a `const` in place of {size}"]
    return error(NO_SUCH_SIZE, title, node.span, secondary=secondary, helps=helps)


def wrong_combine(statement: Replicate, gradient: Value, power: float, loss: Value | None) -> Diagnostic:
    """The gradients are not what `combine` says: they grow as this power of the batch."""
    word, size = statement.combine, statement.split
    says = {0.0: f"a mean over `{size}`", 1.0: f"a sum over `{size}`"}
    are = says.get(power, f"no {word} over `{size}`: they grow as {size}^{power:g}")
    title = f'`combine = "{word}"`, but the gradients of `{statement.entry}` are {are}'
    other = "sum" if word == "mean" else "mean"
    helps: list[Help] = [_combined(statement, other)] if power == (1.0 if other == "sum" else 0.0) else []
    if word == "mean" and loss is not None:
        helps.append("take the `mean` of the losses, not their sum")
    return error(
        COMBINE,
        title,
        statement.setting_span("combine"),
        secondary=_lines(gradient, loss, size),
        notes=["the weights are the same either way: `combine` says what the author of the file takes the loss for"],
        helps=helps,
    )


def _combined(statement: Replicate, word: str) -> Help:
    """A help that says what the gradients are."""
    setting, span = f'combine = "{word}"', statement.setting_span("combine")
    if span == statement.span:
        return editing(f"write `{setting}`", [Edit(span.after(), f", {setting}")])
    return replacing(f"write `{setting}`", span, setting)


def unclear_combine(statement: Replicate, gradient: Value) -> Diagnostic:
    """Whether the gradients are what `combine` says cannot be seen."""
    word, size = statement.combine, statement.split
    return warning(
        UNCLEAR,
        f"it cannot be seen that the gradients of `{statement.entry}` are a {word} over `{size}`",
        statement.setting_span("combine"),
        secondary=_lines(gradient, None, size),
        notes=[
            "the weights are the same either way: `combine` says what the author of the file takes the loss for",
            "the first call compares those of its batch once and twice, where computing them changes nothing",
        ],
    )


def _lines(gradient: Value, loss: Value | None, size: str) -> list[tuple[Span, str]]:
    labels = [(gradient.node.span, "a gradient goes back through this line")] if gradient.node is not None else []
    if loss is not None and loss.node is not None:
        labels.append((loss.node.span, f"this is a sum over `{size}`"))
    return labels
