"""`mutex`: a critical section that at most one call or iteration of a runner is in.

    var guard: mutex = mutex()
    ..
    guard.acquire()
    ..
    guard.release()

A mutex is a queue for one element, which whoever holds it has put in; so waiting, the end of a program and finding out
that nobody can go on are those of queues. Acquiring and releasing are effects on all state of the program: nothing is
read, drawn or written on the other side of them. `unbalanced` (E0705) reads the graph. Guarantees that what is acquired
is released in the same block, on every path, and never acquired by who holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import assign_arguments
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.state.declaration import Declaration, register
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.entities import NOTHING, Entity, QueueValue
from dfc.ir.graph import Block, Graph, Node, ResourceKind
from dfc.ir.queues import MUTEX, queue_type
from dfc.ir.types import TokenType
from dfc.ops.effects.mutexes import ACQUIRE, RELEASE, MutexAttributes
from dfc.syntax.tree import tree


def declare_mutex(declaration: Declaration, item: tree.ParamItem | tree.VarItem, name: str) -> QueueValue:
    """The mutex that an item declares."""
    value = item.value
    if not isinstance(value, tree.Call) or value.function.span.text != "mutex" or value.arguments:
        raise mistake("E0407", "this makes no mutex", item.value.span, notes=("a mutex is made by `mutex()`",))
    span, doc = item.name.span, item.documentation
    variable = Variable(name, ResourceKind.QUEUE, queue_type(MUTEX), False, span, saved=False, doc=doc, queue=MUTEX)
    register(declaration, variable)
    return QueueValue(variable, MUTEX, is_tuple=False)


def acquire(context: Context, mutex: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """`guard.acquire()`: waits until nobody else holds it."""
    return _change(context, mutex, ACQUIRE, "acquire", arguments, span)


def release(context: Context, mutex: QueueValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """`guard.release()`: lets the next one in."""
    return _change(context, mutex, RELEASE, "release", arguments, span)


def _change(
    context: Context, mutex: QueueValue, op: str, method: str, arguments: Sequence[Argument], span: Span
) -> Entity:
    function = f"{mutex.variable.short_name}.{method}"
    assign_arguments(function, [], arguments, span, f"{function}()")
    name, region = mutex.variable.name, context.region
    record_effect(context, f"{method}s", name, span)
    guarded = tuple(sorted(each for each in context.program.variables if each != name))
    resources = sorted((name, *guarded))
    tokens = [region.token(each) for each in resources]
    types = [TokenType(each) for each in resources]
    node = context.at(span).add(op, tokens, types, MutexAttributes(name, guarded))
    for each, token in zip(resources, node.results, strict=True):
        region.advance(each, token)
        region.wrote(each)  # others may have: what was read before is old
    return NOTHING


# --------------------------------------------------------------- balance --


def unbalanced(graph: Graph) -> Iterator[Diagnostic]:
    """A message for each mutex of an entry or runner that is not released where it was acquired."""
    for entry in (*graph.entries.values(), *graph.tests.values()):
        yield from _unbalanced(entry.block, {})


def _unbalanced(block: Block, outside: dict[str, Node]) -> Iterator[Diagnostic]:
    """`outside`: what is held where the block begins, and since where."""
    held = dict(outside)
    for node in block.nodes:
        for region in node.regions:
            yield from _unbalanced(region, held)
        if not isinstance(node.attributes, MutexAttributes):
            continue
        name = node.attributes.resource
        if node.op == ACQUIRE:
            if name in held:
                yield _held(name, node, held[name])
            held.setdefault(name, node)
        elif name in held and name not in outside:
            del held[name]
        else:
            yield _not_held(name, node, outside.get(name))
    for name, node in held.items():
        if name not in outside:
            yield _kept(name, node)


def _held(name: str, node: Node, first: Node) -> Diagnostic:
    title = f"`{name}` is held here already: this would wait for ever"
    secondary = [(first.span, "it was acquired here")]
    return error(
        "E0705", title, node.span, secondary=secondary, helps=(f"give it back in between: `{name}.release()`",)
    )


def _not_held(name: str, node: Node, outside: Node | None) -> Diagnostic:
    if outside is None:
        title = f"`{name}` is not held here"
        return error("E0705", title, node.span, helps=(f"acquire it above, in the same block: `{name}.acquire()`",))
    title = f"`{name}` may be held behind this branch or loop, and may be not"
    secondary = [(outside.span, "it was acquired here")]
    return error("E0705", title, node.span, secondary=secondary, helps=("release it in the block that acquired it",))


def _kept(name: str, node: Node) -> Diagnostic:
    title = f"`{name}` is never released: the next one to acquire it would wait for ever"
    helps = (f"give it back below, in the same block: `{name}.release()`",)
    return error("E0705", title, node.span, "acquired here", helps=helps)
