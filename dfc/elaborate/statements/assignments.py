"""Writing to variables and parts of them: `:= += -= *= /=`.

The value is broadcast to its target, never the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import grouped
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.indexing import Added, Picked, Point, Range, Selector, select
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import assuming
from dfc.elaborate.expressions.operators import whole_quotient
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.names import no_such_name
from dfc.elaborate.names.scope import Binding, BindingRole
from dfc.elaborate.shapes.reduced import kept_axes_for
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.effects import record_effect
from dfc.elaborate.statements.inserting import conversion
from dfc.elaborate.statements.rebinding import never_changes, split
from dfc.elaborate.types.convert import default_type, element_type, is_operand, not_an_operand, snapshot, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import Constant, Entity, Opaque, Tensor, TupleValue, Unknown, Untyped, VariableValue
from dfc.ir.dims import ONE, Dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import ResourceKind, Value
from dfc.ir.types import TensorType, TokenType
from dfc.ops.attributes import AssignAttributes, OperandSelector, RangeSelector
from dfc.ops.broadcasting import stretches_to
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


def run_update(context: Context, statement: tree.Update) -> None:
    value = statement.value
    target, *others = statement.targets
    if others:
        entity = snapshot(context, context.engine.right_hand_side(context, value), value.span)
        for each, part in zip(statement.targets, split(entity, len(statement.targets), value.span), strict=True):
            _update(context, statement, each, part)
        return
    known = _target(context, target, statement)
    expected = known.variable.type if isinstance(known, VariableValue) and not isinstance(target, tree.Index) else None
    entity = snapshot(context, context.engine.right_hand_side(context, value, expected), value.span)
    _update(context, statement, target, entity)


def _target(context: Context, target: tree.Expression, statement: tree.Update | None = None) -> Entity:
    if isinstance(target, tree.Index):
        binding = context.scope.find(target.operand.text) if isinstance(target.operand, tree.Name) else None
        if (
            binding is not None
            and binding.role in (BindingRole.LOOP, BindingRole.LET)
            and isinstance(binding.value, Tensor)
        ):
            raise never_changes(target, binding.value)
        return _target(context, target.operand)
    if isinstance(target, tree.Call):
        raise mistake("E0406", "the result of a call cannot be written to", target.span)
    if isinstance(target, tree.Member):
        return context.engine.evaluate(context.operand(), target)
    if not isinstance(target, tree.Name):
        raise mistake("E0406", "this cannot be written to", target.span)
    binding = context.scope.find(target.text)
    if binding is None:
        raise no_such_name(context, target.text, target.span)
    entity = binding.value
    if isinstance(entity, Unknown):
        raise Abandoned
    if binding.role is BindingRole.LOOP:
        title = f"`{target.text}` is a loop variable; it is given its next value with `=`"
        helps = _next_value(target, statement) if statement is not None else []
        raise mistake("E0404", title, target.span, secondary=[(binding.span, "carried by this loop")], helps=helps)
    if binding.role is BindingRole.PARAMETER:
        raise _a_copy(context, binding, target)
    if not isinstance(entity, VariableValue | TupleValue):
        raise _not_a_variable(binding, target, entity)
    return entity


def _next_value(target: tree.Name, statement: tree.Update) -> list[Help]:
    """`k = k + 1` for `k += 1`"""
    value = statement.value.span.text
    if len(statement.targets) != 1 or "\n" in value:
        return []
    sign = statement.operator.removesuffix("=")
    text = f"{target.text} = {value}" if sign == ":" else f"{target.text} = {target.text} {sign} {grouped(value)}"
    return [replacing(f"write `{text}`", target.span.to(statement.value.span), text)]


def _a_copy(context: Context, binding: Binding, target: tree.Name) -> Mistake:
    text = binding.span.text
    name = target.text
    helps: list[Help] = []
    if context.frame.routine is not None and not text.startswith(("const ", "ref ")) and "=" not in text:
        words = f"declare it as `ref {text}`, so that the caller passes the variable itself"
        helps = [replacing(words, Span(binding.span.file, binding.span.start, binding.span.start), "ref ")]
    return mistake(
        "E0406",
        f"`{name}` is a copy; writing to it would have no effect outside",
        target.span,
        secondary=[(binding.span, "a value parameter")],
        helps=helps,
    )


def _not_a_variable(binding: Binding, target: tree.Name, entity: Entity) -> Mistake:
    secondary = [(binding.span, "defined here")] if not binding.span.is_nowhere else []
    title = f"`{target.text}` is not a variable"
    helps = (f"declare it at the top of the file: `var {target.text}: ... = ...`",)
    return mistake("E0406", title, target.span, f"this is {describe(entity)}", secondary=secondary, helps=helps)


def _update(context: Context, statement: tree.Update, target: tree.Target, entity: Entity) -> None:
    updated = _target(context, target)
    if isinstance(updated, TupleValue):
        if isinstance(target, tree.Index):
            raise mistake("E0406", "a tuple of variables has no axes", target.span)
        _update_tuple(context, statement, target, updated, entity)
        return
    if not isinstance(updated, VariableValue):
        raise mistake("E0406", f"this is {describe(updated)}, not a variable", target.span)
    variable = updated.variable
    if variable.kind is ResourceKind.RNG:
        raise mistake("E0406", f"`{variable.name}` is an rng: it changes when numbers are drawn", target.span)
    selectors = _selectors(context, variable, target)
    assign(context, variable, statement.operator, entity, selectors, statement)


def _update_tuple(
    context: Context, statement: tree.Update, target: tree.Target, variables: TupleValue, entity: Entity
) -> None:
    if isinstance(entity, Constant | Opaque | Untyped):
        entity = TupleValue((entity,) * len(variables.items))
    if not isinstance(entity, TupleValue) or len(entity.items) != len(variables.items):
        fields = counted(len(variables.items), "field")
        raise mistake("E0316", f"`{target.span.text}` has {fields}", statement.value.span, describe(entity))
    for part, item in zip(variables.items, entity.items, strict=True):
        if isinstance(part, TupleValue):
            _update_tuple(context, statement, target, part, item)
        elif isinstance(part, VariableValue):
            assign(context, part.variable, statement.operator, item, None, statement)
        else:
            raise mistake("E0406", "this is not a variable", target.span)


def _selectors(context: Context, variable: Variable, target: tree.Target) -> list[Selector] | None:
    if not isinstance(target, tree.Index):
        return None
    if isinstance(target.operand, tree.Index):
        raise mistake("E0406", "one pair of brackets is enough", target.span)
    selectors = select(context, variable.type, target)
    if any(isinstance(s, Added) for s in selectors):
        raise mistake("E0406", "a target cannot gain axes", target.span)
    return selectors


def assign(
    context: Context,
    variable: Variable,
    mode: str,
    entity: Entity,
    selectors: Sequence[Selector] | None,
    statement: tree.Update,
) -> None:
    """Appends one write; `selectors` pick the part that is written."""
    span = statement.value.span
    record_effect(context, "writes", variable.name, statement.span)
    if not is_operand(entity):
        if isinstance(entity, Unknown):
            raise Abandoned
        raise not_an_operand(entity, span)
    if mode == "/=" and not variable.type.dtype.is_float:
        spans = OperationSpans("/", statement.span, (statement.targets[0].span, span), statement.operator_span)
        adapts = element_type(entity) is None
        whole = not adapts or default_type(entity) == I64
        label = f"{variable.type.dtype} divided by {describe(entity)}"
        raise whole_quotient(label, spans, (False, adapts), whole=whole)
    value = tensor(context, entity, span, variable.type.dtype if element_type(entity) is None else None)
    target = _target_shape(variable, selectors)
    _check_value(context, variable, value, target, statement)
    value, attributes, operands = _write(context, variable, mode, value, selectors, target, span)
    write(context, variable, value, attributes, operands, statement.span)


def write(
    context: Context,
    variable: Variable,
    value: Value,
    attributes: AssignAttributes,
    operands: Sequence[Value],
    span: Span,
) -> None:
    region = context.region
    token = region.token(variable.name)
    node = context.at(span).add("assign", (value, *operands, token), (TokenType(variable.name),), attributes)
    region.advance(variable.name, node.result)
    region.wrote(variable.name)


def assign_whole(context: Context, variable: Variable, value: Value, span: Span) -> None:
    write(context, variable, value, AssignAttributes(variable.name, ":="), (), span)


def _target_shape(variable: Variable, selectors: Sequence[Selector] | None) -> tuple[Dim, ...]:
    """The shape of the part that is written, as the author sees it."""
    if selectors is None:
        return variable.type.shape
    shape: list[Dim] = []
    for selector in selectors:
        match selector:
            case Range(_, size, _):
                shape.append(size)
            case Picked(ids):
                shape += ids.tensor.shape
            case _:
                pass
    return tuple(shape)


def _check_value(
    context: Context, variable: Variable, value: Value, target: tuple[Dim, ...], statement: tree.Update
) -> None:
    got, span = value.tensor, statement.value.span
    expected = TensorType(variable.type.dtype, target)
    text = statement.targets[0].span.text
    if got.dtype != expected.dtype:
        written = conversion(span, expected.dtype)
        helps = (replacing(f"write `{written}`", span, written),) if "\n" not in span.text else ()
        note = "nothing is converted silently in .dfg, not even to a wider type"
        raise mistake("E0302", f"`{text}` is {expected}, but this is {got}", span, notes=(note,), helps=helps)
    with assuming(context.facts):
        if stretches_to(got.shape, target):
            return
        helps = kept_axes_for(context, value, target, span)
    raise mistake(
        "E0305",
        f"`{text}` is {expected}, but this is {got}",
        span,
        notes=("the value of an assignment is broadcast to its target, never the reverse",),
        helps=helps,
    )


def _write(
    context: Context,
    variable: Variable,
    mode: str,
    value: Value,
    selectors: Sequence[Selector] | None,
    target: tuple[Dim, ...],
    span: Span,
) -> tuple[Value, AssignAttributes, list[Value]]:
    """The value with an axis of size 1 for every point, the selectors, and the index operands."""
    if selectors is None:
        return value, AssignAttributes(variable.name, mode), []
    operands: list[Value] = []
    index: list[RangeSelector | OperandSelector] = []
    for selector in selectors:
        match selector:
            case Point(start):
                index.append(RangeSelector(start, ONE))
            case Range(start, size, step):
                index.append(RangeSelector(start, size, step))
            case Picked(ids):
                index.append(OperandSelector(len(operands)))
                operands.append(ids)
            case Added():
                raise AssertionError(selector)
    if any(isinstance(s, Point) for s in selectors) and value.tensor.rank:
        value = context.at(span).reshape(value, _with_points(value.tensor.shape, selectors, len(target)))
    return value, AssignAttributes(variable.name, mode, tuple(index)), operands


def _with_points(shape: tuple[Dim, ...], selectors: Sequence[Selector], rank: int) -> list[Dim]:
    left = [ONE] * (rank - len(shape)) + list(shape)
    inferred: list[Dim] = []
    for selector in selectors:
        if isinstance(selector, Point):
            inferred.append(ONE)
        else:
            width = selector.ids.tensor.rank if isinstance(selector, Picked) else 1
            inferred += left[:width]
            left = left[width:]
    return inferred
