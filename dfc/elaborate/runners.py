"""Runners: bodies that are repeated in the background, each an entry of the graph that nobody calls.

Guarantees that a runner is connected with a queue, by which it is started and waits.
"""

from __future__ import annotations

from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Context, Frame, Program, Root
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.statements.regions import Region, touched, unique_names
from dfc.elaborate.types.convert import constant_of
from dfc.ir import walk
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import Entry, Node
from dfc.ops.effects.queues import QueueAttributes, TakeAttributes
from dfc.syntax.tree import tree

MOST_COPIES = 4096


def build_runner(program: Program, scope: Scope, item: tree.RunnerItem) -> Entry | None:
    """The entry of a runner, or None if it has mistakes (which are reported)."""
    name = item.name.text
    root = Root(name)
    frame = Frame("runner", name, name, item.name.span, root)
    context = Context(program, frame, Region(), Scope(scope), NO_FACTS, label=name)
    before = program.reporter.error_count
    try:
        copies = _copies(context, item)
        context.engine.run_suite(context, item.body)
        if program.reporter.error_count != before:
            return None
        block = context.region.close([], touched([context.region]))
        uses = [node for node in walk.nodes(block) if isinstance(node.attributes, QueueAttributes | TakeAttributes)]
        if before == 0 and not uses:
            raise _unconnected(item)
        for node in uses:
            if isinstance(node.attributes, TakeAttributes) and node.attributes.least == 0:
                raise _endless(item, node)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
        return None
    except Abandoned:
        return None
    unique_names(block, program.graph.bound)
    checks = tuple(root.checks)
    return Entry(name, block, (), (), (), (), checks, item.name.span, doc=item.documentation, copies=copies)


def _copies(context: Context, item: tree.RunnerItem) -> int:
    """How many threads repeat the body: `with copies = 4`."""
    copies = 1
    for setting in item.settings:
        name = setting.name.text
        if name != "copies":
            helps = ("the only setting of a runner is `copies = 4`",)
            near = did_you_mean(closest(name, ("copies",)))
            raise mistake("E0204", f"a runner has no setting `{name}`", setting.name.span, near, helps=helps)
        entity = context.engine.evaluate(context, setting.value)
        value = constant_of(context, entity, setting.value.span, "the setting `copies`")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_COPIES:
            title = f"the setting `copies` is a whole number from 1 to {MOST_COPIES}"
            raise mistake("E0315", title, setting.value.span)
        copies = value
    return copies


def _unconnected(item: tree.RunnerItem) -> Mistake:
    return mistake(
        "E0703",
        f"the runner `{item.name.text}` would never start",
        item.name.span,
        "it uses no queue",
        notes=("a runner starts when an entry is called that a queue connects it with",),
        helps=("put what it makes into a queue, or take what it works on out of one",),
    )


def _endless(item: tree.RunnerItem, take: Node) -> Mistake:
    return mistake(
        "E0315",
        f"the runner `{item.name.text}` would never end",
        take.span,
        "behind the end of the data this gives no elements, again and again",
        helps=("leave `least = 0` out: the runner ends with the data",),
    )
