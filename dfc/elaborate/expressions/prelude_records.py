"""Calls of op records: operands adapt to each other, constants become what the record binds.

`graph.OP(operands.., FIELD = value, ..)` spells any op with its attributes written out and makes exactly one node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import operate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.names.scope import BindingRole
from dfc.elaborate.shapes.obligations import require
from dfc.elaborate.shapes.size_inference import new_size
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.types.convert import (
    constant_of,
    default_type,
    element_type,
    is_operand,
    not_an_operand,
    number_of,
    tensor,
)
from dfc.elaborate.types.entities import (
    NOTHING,
    Constant,
    ElementType,
    Entity,
    ListValue,
    Opaque,
    Pack,
    Size,
    Tensor,
    Text,
    TupleValue,
    TypeValue,
    Unknown,
    Untyped,
    VariableValue,
)
from dfc.elaborate.types.untyped import deferred
from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import ZERO, Dim
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.fields import FieldError, Plain, decode
from dfc.ir.graph import Value
from dfc.ir.types import TokenType, Type
from dfc.ops import binding, registry
from dfc.ops.attributes import (
    ASSERT_RESOURCE,
    AssertAttributes,
    AssignAttributes,
    DrawAttributes,
    HostAttributes,
    ResourceAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.effects.mutexes import MutexAttributes
from dfc.ops.effects.queues import SIZE, QueueAttributes, TakeAttributes
from dfc.ops.lowering.forms import HostCall
from dfc.ops.record import ConstArgument, OpRecord, Parameter
from dfc_runtime.errors import counted

_ELEMENT = re.compile(r"(\w+)_?: (\w+)")
DECIDING = {
    "axis": "the axis decides the shape of the result",
    "keep": "the axes that are kept decide the shape of the result",
    "shape": "the shape of a result is known when the program is compiled",
    "keep_dims": "it decides the shape of the result",
}


def call_record(context: Context, record: OpRecord, arguments: Sequence[Argument], span: Span) -> Entity:
    """A call of the prelude function of an op."""
    name = record.name
    expected_parameters = [ExpectedArgument(p.name, not p.default) for p in record.parameters]
    assigned = assign_arguments(name, expected_parameters, arguments, span, shown(record))
    entities: dict[str, Entity] = {}
    consts: dict[str, ConstArgument] = {}
    for parameter in record.parameters:
        argument = assigned.get(parameter.name)
        if argument is None:
            continue
        entity = value_of(context, argument)
        if isinstance(entity, Unknown):
            raise Abandoned
        if parameter.kind in ("tensor", "tensors"):
            entities[parameter.name] = entity
        else:
            consts[parameter.name] = _const(context, name, parameter, entity, argument.span)
    later = _deferred(record, entities, consts, assigned, span)
    if later is not None:
        return later
    operands, spans = operands_of(context, record, entities, assigned, span)
    operation_spans = OperationSpans(name, span, spans, arguments={n: a.span for n, a in assigned.items()})
    results = operate(
        context, operation_spans, lambda builder: binding.results(builder, record, operands, consts), operands
    )
    require_sizes(context, name, operands, results, span)
    node = results[0].node
    for low, high in record.demands([v.tensor for v in operands], node.attributes) if node is not None else ():
        if require(context, high, ">=", low, f"`{name}` needs that many", span) is False:
            raise mistake("E0314", f"`{name}` would need {counted(low, 'element')} of {high}", span)
    return _as_entity(list(results))


def _deferred(
    record: OpRecord,
    entities: Mapping[str, Entity],
    consts: Mapping[str, ConstArgument],
    assigned: Mapping[str, Argument],
    span: Span,
) -> Untyped | None:
    """The call, to be made where its result meets a type, if it is one of numbers alone."""
    if any(p.kind == "tensors" or (p.kind == "tensor" and p.name not in entities) for p in record.parameters):
        return None
    names = [p.name for p in record.parameters if p.kind == "tensor"]
    arguments = {name: argument.span for name, argument in assigned.items()}
    spans = OperationSpans(record.name, span, [assigned[name].span for name in names], arguments=arguments)

    def build(builder: Builder, operands: Sequence[Value]) -> Value:
        return binding.call(builder, record, operands, consts)

    return deferred(record.name, build, [entities[name] for name in names], spans)


def require_sizes(context: Context, name: str, operands: Sequence[Value], results: Sequence[Value], span: Span) -> None:
    """No new axis of a result has a negative size: proved here, or checked when the entry is called."""
    known = {size for operand in operands for size in operand.tensor.shape}
    for size in dict.fromkeys(size for result in results for size in result.tensor.shape):
        if size in known or size.constant is not None:
            continue
        if require(context, size, ">=", 0, f"`{name}` makes an axis of this size", span) is False:
            raise mistake("E0314", f"`{name}` would make an axis of size {size}", span)


def shown(record: OpRecord) -> str:
    """The declaration of an op without its generics."""
    text = re.sub(r"^fn (\w+?)_?(\[[^\]]*\])?\(", r"\1(", record.signature)
    return re.sub(r"\) -> .*$", ")", text)


def operands_of(
    context: Context, record: OpRecord, entities: Mapping[str, Entity], arguments: Mapping[str, Argument], span: Span
) -> tuple[list[Value], list[Span]]:
    """The tensor operands; numbers take the element type of the operands that share theirs."""
    groups = dict(_ELEMENT.findall(record.signature))
    items: list[tuple[str, Entity, Span]] = []
    for parameter in record.parameters:
        entity = entities.get(parameter.name)
        group = groups.get(parameter.name, parameter.name)
        if parameter.kind == "tensors" and entity is not None:
            items += [
                (group, e, arguments[parameter.name].span)
                for e in _parts(record, entity, arguments[parameter.name].span)
            ]
        elif parameter.kind == "tensor" and entity is not None:
            items.append((group, entity, arguments[parameter.name].span))
        elif parameter.kind == "tensor" and parameter.default:
            items.append((group, Constant(_number(parameter.default)), span))
    values: list[Value] = []
    for group, entity, operand_span in items:
        _require_operand(context, entity, operand_span)
        own = element_type(entity)
        dtype = own or _shared(group, items)
        values.append(tensor(context, entity, operand_span, dtype))
    return values, [operand_span for _, _, operand_span in items]


def _shared(group: str, items: Sequence[tuple[str, Entity, Span]]) -> DType | DTypeVariable | None:
    members = [entity for other, entity, _ in items if other == group]
    for entity in members:
        dtype = element_type(entity)
        if dtype is not None:
            return dtype
    return default_type(ListValue(tuple(members)))


def _require_operand(context: Context, entity: Entity, span: Span) -> None:
    del context
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, span)


def _parts(record: OpRecord, entity: Entity, span: Span) -> tuple[Entity, ...]:
    match entity:
        case ListValue(items) | TupleValue(items):
            if not items:
                raise mistake("E0316", f"`{record.name}` needs at least one tensor", span)
            return items
        case _:
            raise mistake(
                "E0316",
                f"`{record.name}` takes a list of tensors",
                span,
                helps=(f"write `{record.name}([a, b], ...)`",),
            )


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


# ---------------------------------------------------------------- constants --


def _const(context: Context, function: str, parameter: Parameter, entity: Entity, span: Span) -> ConstArgument:
    """A constant argument as the record wants it."""
    if isinstance(entity, Opaque):
        raise Abandoned
    if isinstance(entity, Tensor | VariableValue):
        raise not_constant(context, function, parameter, span)
    if isinstance(entity, Untyped):
        entity = number_of(context, entity, f"the argument `{parameter.name}` of `{function}`")
    value = plain(entity)
    if value is None:
        raise mistake("E0315", f"the argument `{parameter.name}` of `{function}` is of the wrong kind", span)
    needs_number = parameter.type in ("int", "ints", "bool", "str", "float")
    if context.generic and needs_number and _symbolic(value):
        raise Abandoned
    return value


def not_constant(context: Context, function: str, parameter: Parameter, span: Span) -> Exception:
    """The message about an argument that has to be known when the program is compiled."""
    binding = context.scope.find(span.text)
    ordinary = binding is not None and binding.role is BindingRole.PARAMETER and not binding.span.is_nowhere
    kind = {"ints": "int"}.get(parameter.type, parameter.type)
    helps: tuple[Help, ...] = ()
    if binding is not None and ordinary and context.frame.kind != "entry" and kind in ("int", "bool", "float", "str"):
        text = f"const {span.text}: {kind}"
        helps = (replacing(f"declare the parameter as `{text}`", binding.span, text),)
    return mistake(
        "E0309",
        f"the argument `{parameter.name}` of `{function}` must be a constant",
        span,
        "only known when the program runs",
        secondary=[(binding.span, "an ordinary parameter")] if binding is not None and ordinary else [],
        notes=(DECIDING[parameter.name],) if parameter.name in DECIDING else (),
        helps=helps,
    )


def plain(entity: Entity) -> ConstArgument:
    """A compile-time entity as a plain value; None if it is none."""
    match entity:
        case Constant(value):
            return value
        case Size(size):
            return size.constant if size.constant is not None else size
        case ElementType(dtype):
            return dtype
        case TypeValue(type_):
            return type_
        case Pack(shape):
            return shape
        case ListValue(items) | TupleValue(items):
            values: list[ConstArgument] = []
            for item in items:
                values += item.shape if isinstance(item, Pack) else (plain(item),)  # `[S, 3]`: the sizes of S, and 3
            return None if any(item is None for item in values) else tuple(values)
        case Unknown() | Opaque():
            raise Abandoned
        case _:
            return None


def _symbolic(value: ConstArgument) -> bool:
    if isinstance(value, tuple):
        return any(_symbolic(item) for item in value)
    return isinstance(value, Dim) and value.constant is None


# ---------------------------------------------------------------- graph.OP --


def call_graph_op(context: Context, name: str, arguments: Sequence[Argument], span: Span) -> Entity:
    """`graph.OP(..)`"""
    record = registry.find(name)
    if record is None:
        raise mistake("E0203", f"there is no op `{name}`", span)
    operands: list[Value] = []
    fields: dict[str, Plain] = {}
    for argument in arguments:
        entity = value_of(context, argument)
        if argument.name:
            fields[argument.name.removesuffix("_")] = _plain_field(context, argument, entity)
        elif isinstance(entity, Text):
            operands.append(entity.value)
        else:
            operands.append(tensor(context, entity, argument.span))
    try:
        if record.attributes is MeasuredAttributes:
            fields.setdefault("size", 0)  # it has no name in the text: `let [N] ..` gives it one
        attributes = decode(record.attributes, fields)
    except FieldError as problem:
        blamed_span = next((a.span for a in arguments if a.name.removesuffix("_") == problem.field), span)
        raise mistake("E0315", f"{problem} in `graph.{name}`", blamed_span) from None
    if isinstance(attributes, MeasuredAttributes) and attributes.size == ZERO and context.fresh:
        attributes = replace(attributes, size=new_size(context, attributes.most))
    return _append_op(context, record, operands, attributes, span)


def _plain_field(context: Context, argument: Argument, entity: Entity) -> Plain:
    value = plain(entity)
    if value is None:
        if isinstance(entity, Tensor):
            constant_of(context, entity, argument.span, f"the field `{argument.name}`")
        raise mistake("E0315", f"the field `{argument.name}` is of the wrong kind", argument.span)
    return _as_list(value)


def _as_list(value: ConstArgument) -> Plain:
    if isinstance(value, tuple):
        return [_as_list(item) for item in value]
    assert value is not None
    return value


def _append_op(context: Context, record: OpRecord, operands: list[Value], attributes: Attributes, span: Span) -> Entity:
    """One node; what it does to resources follows from the order of lines."""
    spans = OperationSpans(f"graph.{record.name}", span, [span] * len(operands))
    types: Sequence[Type]
    resources: Sequence[str]
    match attributes:
        case ResourceAttributes(resource):
            types, resources, verb = [_resource(context, resource, span).type], [resource], ""
        case DrawAttributes(resource):
            types, resources, verb = [attributes.type], [resource], "draws from"
        case AssignAttributes(resource):
            types, resources, verb = (), [resource], "writes"
        case HostAttributes(names):
            types, resources = (), sorted(names)
            verb = "restores" if record.name == "checkpoint_restore" else "saves"
        case AssertAttributes():
            types, resources, verb = (), [ASSERT_RESOURCE], ""
        case QueueAttributes(resource) | TakeAttributes(resource):
            types = operate(context, spans, lambda _: record.infer([v.tensor for v in operands], attributes))
            resources, verb = [resource], "reads" if record.name == SIZE else "uses"
        case MutexAttributes(resource, guarded):
            types, resources, verb = (), sorted((resource, *guarded)), ""
        case _ if isinstance(record.lowering, HostCall):
            types = operate(context, spans, lambda _: record.infer([v.tensor for v in operands], attributes))
            resources, verb = [record.lowering.resource], ""
        case _:
            node = operate(context, spans, lambda builder: builder.node(record.name, operands, attributes))
            return _as_entity(list(node.results))
    for resource in resources:
        if not resource.startswith("@"):
            _resource(context, resource, span)
            if verb:
                record_effect(context, verb, resource, span)
    region = context.region
    tokens = [region.token(resource) for resource in resources]
    all_types = [*types, *(TokenType(resource) for resource in resources)]
    node = context.at(span).add(record.name, (*operands, *tokens), all_types, attributes)
    for resource, token in zip(resources, node.results[len(types) :], strict=True):
        region.advance(resource, token)
        if verb in ("writes", "restores"):
            region.wrote(resource)
    return _as_entity(list(node.results[: len(types)]))


def _as_entity(values: list[Value]) -> Entity:
    if not values:
        return NOTHING
    return Tensor(values[0]) if len(values) == 1 else TupleValue(tuple(Tensor(v) for v in values))


def _resource(context: Context, name: str, span: Span) -> Variable:
    variable = context.program.variables.get(name)
    if variable is None:
        raise mistake("E0201", f"there is no variable `{name}`", span)
    return variable
