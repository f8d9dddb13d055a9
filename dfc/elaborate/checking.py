"""Checks each function and block by itself, before any call: its dimensions and element types stand for themselves.

A shape pack is checked as two axes; unknown constants stay unknown, and statements that need their value are left to
the calls. The nodes are thrown away. A function with mistakes is `broken`: calls of it are not elaborated.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Frame, Outcome, Program, Root
from dfc.elaborate.expressions.custom_gradients import with_gradient
from dfc.elaborate.expressions.routines import finish, kind_of
from dfc.elaborate.mistakes import Abandoned, Mistake
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.shapes.obligations import assume_all, where_conditions
from dfc.elaborate.state.randomness import RNG_TYPE
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.blocks import make_instance
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.declared import ConstType, DeclaredType, ResourceType, Signature, TupleType
from dfc.elaborate.types.entities import UNKNOWN, Entity, Instance, Routine, Tensor, TupleValue, VariableValue
from dfc.elaborate.types.generics import bind_generics, read_signature
from dfc.elaborate.types.types import expected_of, resolve_type
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import ResourceKind, Value
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree


def check_routine(program: Program, routine: Routine) -> None:
    """Reports the mistakes of a function that do not depend on its calls."""
    item = routine.item
    before = program.reporter.error_count
    kind = kind_of(item)
    root = Root(item.name.text, generic=True)
    frame = Frame(kind, item.name.text, item.name.text, item.name.span, root, routine=routine)
    context = Context(program, frame, Region(), routine.scope, NO_FACTS, label=item.name.text)
    try:
        _check(context, routine)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
    except Abandoned:
        pass
    if program.reporter.error_count > before:
        program.broken.add(id(item))


def _check(context: Context, routine: Routine) -> None:
    item = routine.item
    signature, scope = read_signature(context, routine.scope, item.generics, item.parameters, item.result, rigid=True)
    keyword = Span(item.span.file, item.span.start, item.span.start + len(context.frame.kind))
    frame = replace_span(context.frame, keyword)
    facts = context.program.block_facts.get(id(item), NO_FACTS)
    inner = context.changed(frame=frame, scope=Scope(scope), facts=facts)
    bind_parameters(inner, item.parameters, signature.types)
    for condition, _ in where_conditions(inner, item.where):
        assume_all(inner, [condition])
    outcome = Outcome("return", expected=expected_of(signature.result))
    inner.outcome = outcome
    if isinstance(item.body, tree.ShortBody):
        inner.may_affect = True
        outcome.value = inner.engine.right_hand_side(inner, item.body.value, outcome.expected)
        outcome.span = item.body.value.span
    else:
        inner.engine.run_suite(inner, item.body)
    value = finish(inner, outcome, signature.result, item, item.name.span)
    with_gradient(inner, item, signature.types, signature.result, value, item.name.span)


def replace_span(frame: Frame, span: Span) -> Frame:
    return Frame(frame.kind, frame.name, frame.path, span, frame.root, routine=frame.routine)


def bind_parameters(context: Context, parameters: Sequence[tree.Parameter], types: Sequence[DeclaredType]) -> None:
    """Parameters that stand for any argument of their type."""
    for parameter, type_ in zip(parameters, types, strict=True):
        name = parameter.name.text
        if isinstance(type_, ConstType) and not type_.is_list:
            binding = context.scope.find(name)
            if binding is not None:
                context.scope.bind(name, binding.value, parameter.span, BindingRole.PARAMETER)
            continue
        reference = isinstance(parameter, tree.RefParameter)
        entity = any_variable(name, type_, parameter.span) if reference else any_value(name, type_)
        context.scope.bind(name, entity, parameter.span, BindingRole.REFERENCE if reference else BindingRole.PARAMETER)


def any_value(name: str, type_: DeclaredType) -> Entity:
    match type_:
        case TensorType():
            return Tensor(Value(type_, name))
        case TupleType(fields, names):
            shown = names or ("",) * len(fields)
            return TupleValue(tuple(any_value(f"{name}.{n}", f) for n, f in zip(shown, fields, strict=True)), names)
        case _:
            return UNKNOWN


def any_variable(name: str, type_: DeclaredType, span: Span) -> Entity:
    match type_:
        case TensorType():
            return VariableValue(Variable(name, ResourceKind.VARIABLE, type_, True, span))
        case ResourceType("rng"):
            return VariableValue(Variable(name, ResourceKind.RNG, RNG_TYPE, False, span))
        case TupleType(fields, names):
            shown = names or ("",) * len(fields)
            items = tuple(any_variable(f"{name}.{n}", f, span) for n, f in zip(shown, fields, strict=True))
            return TupleValue(items, names)
        case _:
            return UNKNOWN


# ------------------------------------------------------------------- blocks --


def check_block(program: Program, scope: Scope, item: tree.BlockItem) -> None:
    """Makes an instance whose dimensions stand for themselves, and checks its functions."""
    root = Root(item.name.text, generic=True)
    frame = Frame("block", item.name.text, item.name.text, item.name.span, root)
    context = Context(program, frame, Region(), scope, NO_FACTS, label=item.name.text)
    try:
        signature, inner_scope = read_signature(context, scope, item.generics, item.parameters, None, rigid=True)
        inner = context.changed(scope=Scope(inner_scope))
        bind_parameters(inner, item.parameters, signature.types)
        _copy_generics(inner.scope, inner_scope)
        for condition, _ in where_conditions(inner, item.where):
            assume_all(inner, [condition])
        instance = make_instance(inner, item, item.name.text, item.name.span)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
        return
    except Abandoned:
        return
    for member in item.members:
        if isinstance(member, tree.FunctionItem | tree.ProcedureItem):
            _check_member(program, instance, member, inner)


def _copy_generics(scope: Scope, outer: Scope) -> None:
    for name, binding in outer.names.items():
        if scope.own(name) is None:
            scope.names[name] = binding


def _check_member(
    program: Program, instance: Instance, member: tree.FunctionItem | tree.ProcedureItem, block: Context
) -> None:
    binding = instance.scope.own(member.name.text)
    routine = binding.value if binding is not None else None
    if isinstance(routine, Routine):
        program.block_facts[id(member)] = block.facts
        check_routine(program, routine)


def check_type(program: Program, scope: Scope, item: tree.TypeItem) -> None:
    """Reports the mistakes of a type that do not depend on its dimensions."""
    frame = Frame("type", item.name.text, item.name.text, item.name.span, Root(item.name.text, generic=True))
    context = Context(program, frame, Region(), scope, NO_FACTS)
    try:
        inner = Scope(scope)
        bind_generics(inner, Signature(item.generics, (), (), None, rigid=True), context, rigid=True)
        resolve_type(context.changed(scope=inner), item.type)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
    except Abandoned:
        pass
