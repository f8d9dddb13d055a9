"""Calls: what is called decides. A call that had an effect may not be an operand (E0403)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import converted
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.draws import call_rng_method
from dfc.elaborate.expressions.recomputing import computed_again, is_computed_again
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.statements.effects import effect_in_operand
from dfc.elaborate.statements.inserting import operand
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    BlockClass,
    ElementType,
    Entity,
    EntryValue,
    Instance,
    PreludeFunction,
    QueueMethod,
    ReaderMethod,
    RngMethod,
    Routine,
    SpecialType,
    Tensor,
    Unknown,
    VariableValue,
)


def call(
    context: Context, function: Entity, arguments: Sequence[Argument], span: Span, expected: Expected = None
) -> Entity:
    effects = context.frame.root.effects
    before = len(effects)
    result = _dispatch(context, function, arguments, span, expected)
    if len(effects) > before and not context.may_affect:
        raise effect_in_operand(span, effects[before])
    return result


def _dispatch(
    context: Context, function: Entity, arguments: Sequence[Argument], span: Span, expected: Expected
) -> Entity:
    match function:
        case Routine():
            return _call_routine(context, function, arguments, span, expected)
        case PreludeFunction(name):
            return context.engine.call_prelude(context, name, arguments, span, expected)
        case RngMethod():
            return call_rng_method(context, function, arguments, span)
        case QueueMethod():
            from dfc.elaborate.state.queue_calls import call_queue_method  # most programs have no queue

            return call_queue_method(context, function, arguments, span)
        case ReaderMethod():
            from dfc.elaborate.state.reader_calls import call_reader_method  # most programs have no reader

            return call_reader_method(context, function, arguments, span)
        case Instance():
            return _apply(context, function, arguments, span, expected)
        case BlockClass():
            return context.engine.construct(context, function, arguments, span)
        case EntryValue():
            return context.engine.call_entry(context, function, arguments, span)
        case Unknown():
            raise Abandoned
        case _:
            raise _not_callable(function, arguments, span)


def _apply(
    context: Context, instance: Instance, arguments: Sequence[Argument], span: Span, expected: Expected
) -> Entity:
    binding = instance.scope.own("apply")
    routine = binding.value if binding is not None else None
    if not isinstance(routine, Routine):
        raise mistake(
            "E0207",
            f"an instance of `{instance.item.name.text}` cannot be called",
            span,
            notes=("calling an instance calls its `apply`, and it has none",),
        )
    return _call_routine(context, routine, arguments, span, expected)


def _call_routine(
    context: Context, routine: Routine, arguments: Sequence[Argument], span: Span, expected: Expected
) -> Entity:
    if not is_computed_again(context, routine):
        return context.engine.call_routine(context, routine, arguments, span, expected)
    evaluated = [replace(each, entity=value_of(context, each)) for each in arguments]  # those belong to the caller
    return computed_again(
        context, lambda inner: inner.engine.call_routine(inner, routine, evaluated, span, expected), span
    )


DECLARED = {"rng": "var dice: rng = philox(seed = 1)", "mutex": "var guard: mutex = mutex()"}
"""Types whose values are state: what makes one stands in a declaration."""


def _not_callable(function: Entity, arguments: Sequence[Argument], span: Span) -> Exception:
    text = span.text.split("(")[0]
    if text in DECLARED:
        helps = (f"declare it with its type: `{DECLARED[text]}`",)
        return mistake("E0207", f"`{text}` is not a function", span, helps=helps)
    if isinstance(function, ElementType | SpecialType):
        dtype = {"float": "f32", "int": "i64"}.get(text, text)  # kinds of constants are no element types
        inner = operand(converted(arguments[0].span.text if arguments else "x", dtype), span)
        if len(arguments) != 1:
            return mistake("E0207", f"`{text}` is not a function", span, helps=(f"to convert, write `x as {dtype}`",))
        return mistake(
            "E0207",
            f"`{text}` is not a function",
            span,
            helps=(replacing(f"to convert, write `{inner}`", span, inner),),
        )
    helps = ()
    if isinstance(function, Tensor | VariableValue):
        helps = (f"to multiply, write `{text} * (...)`", f"to take elements, write `{text}[...]`")
    return mistake("E0207", f"`{text}` is not a function", span, f"this is {describe(function)}", helps=helps)
