"""Instances of blocks: `var net = Dense[784, 10]()`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import CALL_COST, Argument, Context, Frame
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.parameters import bind_all, match_arguments, require_all_known
from dfc.elaborate.mistakes import Mistake, mistake, unsupported
from dfc.elaborate.names.declarations import declare
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.shapes.cost_limit import refuse_cost
from dfc.elaborate.shapes.obligations import require, where_conditions
from dfc.elaborate.state.declaration import Declaration
from dfc.elaborate.state.state import declare_state
from dfc.elaborate.types.entities import BlockClass, Constant, Entity, Instance, Routine, Size, Unknown
from dfc.elaborate.types.generics import Matching, read_signature
from dfc.syntax.tree import tree

STATE_ITEMS = (tree.ParamItem, tree.VarItem, tree.QueueItem)


def construct(context: Context, block: BlockClass, arguments: Sequence[Argument], span: Span) -> Entity:
    """Makes an instance; its state is part of the program under the name of the declaration."""
    item = block.item
    name = context.instance
    if not name:
        raise mistake(
            "E0210",
            f"an instance of `{item.name.text}` is made by a declaration",
            span,
            "there is no name for its state here",
            helps=(f"write `var name = {span.text}` at the top of the file or in a block",)
            if "\n" not in span.text
            else (),
        )
    refuse_cost(context.program, block, span)
    context.program.grow(CALL_COST, span)
    frame = Frame("block", item.name.text, name, item.name.span, context.frame.root, context.frame, span)
    inner = context.changed(frame=frame, scope=block.scope, instance="")
    signature, _ = read_signature(inner, block.scope, item.generics, item.parameters, None)
    matching = Matching(context, signature)
    matching.give_explicitly(block.explicit, span, item.name.text)
    outside = context.changed(instance="")
    if not block.explicit:
        _refuse_sizes_in_parentheses(outside, item, arguments, span)
    bound = match_arguments(outside, matching, item.name.text, arguments, span, block.scope)
    require_all_known(matching, item.name.text, span)
    inner = inner.changed(scope=Scope(block.scope))
    bind_all(inner, matching, bound)
    for (left, relation, right), condition in where_conditions(inner, item.where):
        text = " ".join(condition.text.split())
        if require(context, left, relation, right, f"`{item.name.text}` needs {text}", span) is False:
            title = f"`{item.name.text}` needs {text}"
            label = f"here {left} {relation} {right} does not hold"
            raise mistake("E0305", title, span, label, secondary=[(condition, "required here")])
    return make_instance(inner, item, name, span)


def _refuse_sizes_in_parentheses(
    context: Context, item: tree.BlockItem, arguments: Sequence[Argument], span: Span
) -> None:
    """`Dense(3, 4)`, as other libraries write it, where no argument could tell the sizes (E0204)."""
    names = [generic.name.text for generic in item.generics if isinstance(generic, tree.GenericName)]
    parameters = " ".join(parameter.span.text for parameter in item.parameters)
    count = len(item.generics)
    leading, rest = arguments[:count], arguments[count:]
    if not count or len(leading) < count or len(names) < count or set(names) & set(re.findall(r"\w+", parameters)):
        return
    if any(generic.kind is not None for generic in item.generics if isinstance(generic, tree.GenericName)):
        return
    if any(each.name or not _is_size(context, each) for each in leading):
        return
    written = ", ".join(each.span.text for each in leading)
    others = ", ".join(f"{each.name} = {each.span.text}" if each.name else each.span.text for each in rest)
    call = f"{span.text.partition('(')[0]}[{written}]({others})"
    raise mistake(
        "E0204",
        f"the sizes of `{item.name.text}` stand in square brackets",
        leading[0].span,
        notes=(f"it is declared as `{item.name.text}[{', '.join(names)}]`",),
        helps=(replacing(f"write `{call}`", span, call),),
    )


def _is_size(context: Context, argument: Argument) -> bool:
    match value_of(context, argument):
        case Constant(bool()):
            return False
        case Constant(int()) | Size():
            return True
        case _:
            return False


def make_instance(context: Context, item: tree.BlockItem, name: str, span: Span) -> Instance:
    """An instance whose generic names and parameters are bound in the scope of `context`."""
    program = context.program
    if any(each is item for each in program.open_blocks):
        raise mistake("E0208", f"the block `{item.name.text}` contains itself", span)
    program.open_blocks.append(item)
    try:
        return _with_members(context, item, name)
    finally:
        program.open_blocks.pop()


def _with_members(context: Context, item: tree.BlockItem, name: str) -> Instance:
    program = context.program
    instance = Instance(name, item, context.scope)
    declaration = Declaration(program, context.scope, f"{name}.", context.generic)
    for each in item.members:
        try:
            if isinstance(each, tree.RunnerItem):
                raise unsupported("runners in blocks are", each.name.span)
            declare(program, context.scope, each, lambda s, p=declaration: declare_state(p, s))
        except Mistake as problem:
            program.reporter.report(problem.diagnostic)
    for each in item.members:
        binding = context.scope.own(each.name.text)
        if binding is None:
            continue
        if isinstance(binding.entity, Routine):
            binding.entity = replace(binding.entity, owner=instance)
        elif isinstance(each, STATE_ITEMS):
            entity = binding.value
            if not isinstance(entity, Unknown):
                instance.state[each.name.text] = entity
    for binding in context.scope.names.values():
        if isinstance(binding.entity, Routine) and binding.entity.owner is instance:
            refuse_cost(program, binding.entity, binding.span)
    return instance
