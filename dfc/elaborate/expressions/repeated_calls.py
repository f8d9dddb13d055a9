"""Calls in a body that is checked by itself: the second call of a function with the same types has the nodes of the
first one, and is not elaborated again.

    fn f[N](x: f32[N]) -> f32[N] = g(x) + g(x * 2.0)        the body of `g` is elaborated once for the check of `f`

A tower of functions that call the one below twice would otherwise be elaborated in full for each of its floors. Assumes
the check of a body, whose nodes are thrown away: names of copies are those of the first call. Guarantees the messages
that there are without it: what had an effect, a message or a condition on sizes of its own, or whose nodes are made of
anything but its arguments, is elaborated each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, RepeatedCall
from dfc.elaborate.types.declared import DeclaredType
from dfc.elaborate.types.entities import Entity, Routine, Tensor
from dfc.ir.dtypes import BOOL
from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import Cloner
from dfc.syntax.tree import tree


def called_again(
    context: Context,
    routine: Routine,
    arguments: Sequence[Entity],
    result: DeclaredType | None,
    elaborate: Callable[[], Entity],
    span: Span,
) -> Entity:
    """What a call gives whose body `elaborate` expands."""
    values = _tensors(routine, arguments) if context.generic else None
    if values is None:
        return elaborate()
    calls, types = context.frame.root.calls, tuple([value.type for value in values])
    key = (id(routine.item), routine.scope, types, result, id(context.facts))
    known = calls.get(key)
    if known is not None:
        context.program.grow(known.cost, span)
        copies = Cloner(dict(zip(known.arguments, values, strict=True)))
        copies.inline(known.nodes, context.region.block.nodes)
        return Tensor(copies.value(known.result))
    first, cost, before = len(context.region.block.nodes), context.program.node_count, _state(context)
    entity = elaborate()
    nodes = context.region.block.nodes[first:]
    if isinstance(entity, Tensor) and _state(context) == before and _are_of(nodes, values, entity.value):
        # with the facts, so that their identity stays theirs
        cost = context.program.node_count - cost
        calls[key] = RepeatedCall(tuple(values), tuple(nodes), entity.value, cost, context.facts)
    return entity


def _tensors(routine: Routine, arguments: Sequence[Entity]) -> list[Value] | None:
    """The arguments of a plain function, if they are different numbers; truth values may stand for conditions on
    sizes."""
    item = routine.item
    if not isinstance(item, tree.FunctionItem) or item.where or item.gradient is not None:
        return None
    if routine.owner is not None or routine.explicit:
        return None
    values = [each.value for each in arguments if isinstance(each, Tensor) and each.type.dtype != BOOL]
    return values if len(values) == len(arguments) == len(set(values)) else None


def _state(context: Context) -> tuple[object, ...]:
    """What a call may leave behind besides nodes."""
    region, root, program = context.region, context.frame.root, context.program
    return (
        len(root.effects),
        len(root.checks),
        len(root.lost),
        len(program.reporter.diagnostics),
        program.fresh_symbols,
        dict(region.tokens),
        len(region.snapshots),
        len(region.differentiated),
        len(region.measured),
        len(region.parameters),
        id(context.facts),
        context.frame.draws,
    )


def _are_of(nodes: Sequence[Node], arguments: Sequence[Value], result: Value) -> bool:
    """Whether nodes without regions, and the result, are made of the arguments alone."""
    inside = set(arguments)
    for node in nodes:
        if node.regions or not inside.issuperset(node.operands):
            return False
        inside.update(node.results)
    return result in inside
