"""Host output, and the clock: `summary.scalar summary.histogram debug.print clock`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import operate
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.names.names import no_such_name
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.convert import is_operand, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    Constant,
    Entity,
    ListValue,
    Opaque,
    Tensor,
    Text,
    TupleValue,
    Unknown,
    VariableValue,
)
from dfc.ir.attributes import Attributes
from dfc.ir.graph import Node, Value
from dfc.ir.types import TokenType
from dfc.ops import registry
from dfc.ops.effects.host_io import PrintAttributes, SummaryAttributes
from dfc.ops.lowering.forms import HostCall
from dfc.syntax.tree import tree
from dfc_runtime.observe.printing import escaped, placeholders

Arguments = Mapping[str, Argument]
VERB = "calls"


def run_scalar(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`summary.scalar("loss", loss)`"""
    del expected
    return _summarise(context, "summary.scalar", arguments, span)


def run_histogram(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`summary.histogram("logits", logits, step = steps)`"""
    del expected
    return _summarise(context, "summary.histogram", arguments, span)


def _summarise(context: Context, function: str, assigned: Arguments, span: Span) -> Entity:
    attributes = SummaryAttributes(_text(context, assigned["tag"], f"the tag of `{function}`"))
    arguments = [assigned[name] for name in ("x", "step") if name in assigned]
    operands = [_operand(context, function, argument) for argument in arguments]
    record_effect(context, VERB, function, span)
    spans = OperationSpans(function, span, [argument.span for argument in arguments])
    _append(context, function.replace(".", "_"), operands, attributes, spans)
    return NOTHING


def run_print(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`debug.print("took {} ns for N = {}", time, N)`: what is known already becomes a part of the format."""
    del expected
    format_ = _text(context, arguments["format"], "the format of `debug.print`")
    values = [argument for name, argument in arguments.items() if name != "format"]
    _check_placeholders(format_, arguments["format"], values)
    operands: list[Value] = []
    filled: list[str] = []
    for argument in values:
        entity = value_of(context, argument)
        if isinstance(entity, Constant | Opaque):
            filled.append(escaped(str(entity.value)) if isinstance(entity, Constant) else "?")
        else:
            operands.append(_operand(context, "debug.print", argument, entity))
            filled.append("{}")
    record_effect(context, VERB, "debug.print", span)
    _append(
        context, "debug_print", operands, PrintAttributes(_filled(format_, filled)), OperationSpans("debug.print", span)
    )
    return NOTHING


def _check_placeholders(format_: str, argument: Argument, values: Sequence[Argument]) -> None:
    try:
        count = placeholders(format_)
    except ValueError as problem:
        raise mistake("E0315", str(problem), argument.span) from None
    if count == len(values):
        return
    title = f"the format has {count or 'no'} place{'' if count == 1 else 's'} `{{}}` for {len(values) or 'no'} value"
    more = [(value.span, "there is no place for this") for value in values[count:]]
    helps = ("write one `{}` in the format for each value behind it; `{{` and `}}` are braces",)
    raise mistake("E0204", title + ("" if len(values) == 1 else "s"), argument.span, secondary=more, helps=helps)


def _filled(format_: str, texts: Sequence[str]) -> str:
    """The format with each `{}` replaced; braces that are written twice stay so."""
    rest = iter(texts)
    pieces = format_.replace("{{", "\0").replace("{}", "\1").replace("\0", "{{").split("\1")
    return pieces[0] + "".join(next(rest) + piece for piece in pieces[1:])


def make_clock(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`clock() after y`: the time when `y` is there."""
    del arguments, expected
    record_effect(context, "reads", "clock", span)
    return Tensor(_append(context, "clock", list(context.after), None, OperationSpans("clock", span)).result)


def waited_for(context: Context, path: tree.Path) -> Iterator[Value]:
    """The tensors that `after PATH` names; what is known when the program is compiled is always there."""
    first, *rest = path.parts
    if context.scope.find(first.text) is None:
        raise no_such_name(context, first.text, first.span)
    expression: tree.Expression = tree.Name(first.text, span=first.span)
    for part in rest:
        expression = tree.Member(expression, part, span=path.span)
    pending = [context.engine.evaluate(context.operand(), expression)]
    while pending:
        entity = pending.pop(0)
        if isinstance(entity, TupleValue | ListValue):
            pending[:0] = entity.items
        elif isinstance(entity, Tensor | VariableValue) and is_operand(entity):
            yield tensor(context, entity, path.span)


def _text(context: Context, argument: Argument, what: str) -> str:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown | Opaque):
        raise Abandoned
    if not isinstance(entity, Constant) or not isinstance(entity.value, str):
        raise mistake("E0316", f"{what} is a text, known when the program is compiled", argument.span, describe(entity))
    return entity.value


def _operand(context: Context, function: str, argument: Argument, entity: Entity | None = None) -> Value:
    entity = value_of(context, argument) if entity is None else entity
    if isinstance(entity, Unknown):
        raise Abandoned
    if isinstance(entity, Text):
        raise unsupported(f"a string in `{function}` is", argument.span)
    if not is_operand(entity):
        raise mistake("E0316", f"`{function}` takes tensors and numbers", argument.span, describe(entity))
    return tensor(context, entity, argument.span)


def _append(
    context: Context, op: str, operands: Sequence[Value], attributes: Attributes | None, spans: OperationSpans
) -> Node:
    """A call of the host, behind those before it."""
    record = registry.record(op)
    assert isinstance(record.lowering, HostCall)
    resource, region = record.lowering.resource, context.region
    call_attributes = attributes if attributes is not None else record.attributes()
    types = operate(context, spans, lambda _: record.infer([v.tensor for v in operands], call_attributes), operands)
    token = region.token(resource)
    node = context.at(spans.span).add(op, (*operands, token), (*types, TokenType(resource)), call_attributes)
    region.advance(resource, node.results[-1])
    return node
