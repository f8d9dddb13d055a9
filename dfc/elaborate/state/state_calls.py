"""Prelude functions about state: `params state initialize reset checkpoint.save checkpoint.restore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.state.initial import first_value, in_order
from dfc.elaborate.state.variables import Variable, variables_in
from dfc.elaborate.statements.assignments import assign_whole
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    Constant,
    Entity,
    Instance,
    ListValue,
    ProgramValue,
    Text,
    TupleValue,
    Unknown,
    VariableValue,
)
from dfc.ir.types import TokenType
from dfc.ops.attributes import HostAttributes

Arguments = Mapping[str, Argument]


def variables_of(context: Context, argument: Argument, function: str) -> list[Variable]:
    """The variables of the program, an instance, a list, or one."""
    entity = value_of(context, argument)
    match entity:
        case ProgramValue():
            context.program.resolve_state()
            return list(context.program.variables.values())
        case Instance() | VariableValue() | ListValue() | TupleValue():
            _only_variables(entity, argument.span, function)
            return list(dict.fromkeys(variables_in(entity)))
        case Unknown():
            raise Abandoned
        case _:
            raise mistake(
                "E0316",
                f"`{function}` takes the program, an instance of a block or variables",
                argument.span,
                describe(entity),
            )


def _only_variables(entity: Entity, span: Span, function: str) -> None:
    if isinstance(entity, ListValue | TupleValue):
        for item in entity.items:
            _only_variables(item, span, function)
    elif isinstance(entity, Unknown):
        raise Abandoned
    elif not isinstance(entity, VariableValue | Instance):
        raise mistake("E0316", f"`{function}` takes variables", span, f"this holds {describe(entity)}")


def make_params(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del span, expected
    members = variables_of(context, arguments["of"], "params")
    return ListValue(tuple(VariableValue(v) for v in members if v.trained))


def make_state(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del span, expected
    return ListValue(tuple(VariableValue(v) for v in variables_of(context, arguments["of"], "state")))


def run_initialize(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del expected
    _initialise(context, variables_of(context, arguments["what"], "initialize"), span)
    return NOTHING


def run_reset(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`reset("container")`"""
    del expected
    entity = value_of(context, arguments["container"])
    if not isinstance(entity, Constant) or not isinstance(entity.value, str):
        raise mistake("E0315", "`reset` takes the name of a container", arguments["container"].span)
    context.program.resolve_state()
    everything = list(context.program.variables.values())
    containers = sorted({v.container for v in everything})
    if entity.value not in containers:
        note = f"the containers are {listed(containers)}"
        near = did_you_mean(closest(entity.value, containers))
        raise mistake(
            "E0201", f"there is no container `{entity.value}`", arguments["container"].span, near, notes=(note,)
        )
    _initialise(context, [v for v in everything if v.container == entity.value], span)
    return NOTHING


def _initialise(context: Context, variables: Sequence[Variable], span: Span) -> None:
    """Writes the first value of each variable, those that others read first."""
    for variable in in_order(context.program, variables):
        value = first_value(context, variable)
        if value is not None:
            record_effect(context, "writes", variable.name, span)
            assign_whole(context, variable, value, span)


# -------------------------------------------------------------- checkpoints --


def run_save(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del expected
    return _host(context, "checkpoint_save", "saves", arguments, span)


def run_restore(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    del expected
    return _host(context, "checkpoint_restore", "restores", arguments, span)


def _host(context: Context, op: str, verb: str, arguments: Arguments, span: Span) -> Entity:
    function = "checkpoint." + op.removeprefix("checkpoint_")
    path = value_of(context, arguments["path"])
    if isinstance(path, Unknown):
        raise Abandoned
    if isinstance(path, Constant) and isinstance(path.value, str):
        help_ = "let the host say where: declare the entry with the parameter `path: string`"
        raise unsupported("a fixed path is", arguments["path"].span, helps=(help_,))
    if not isinstance(path, Text):
        raise mistake("E0316", f"`{function}` takes a path", arguments["path"].span, describe(path))
    chosen = variables_of(context, arguments["what"], function)
    everything = isinstance(value_of(context, arguments["what"]), ProgramValue)
    ordered = sorted(v.name for v in chosen if v.saved or not everything)
    for name in ordered:
        record_effect(context, verb, name, span)
    region = context.region
    tokens = [region.token(name) for name in ordered]
    types = [TokenType(name) for name in ordered]
    node = context.at(span).add(op, (path.value, *tokens), types, HostAttributes(tuple(ordered)))
    for name, token in zip(ordered, node.results, strict=True):
        region.advance(name, token)
        if verb == "restores":
            region.wrote(name)
    return NOTHING
