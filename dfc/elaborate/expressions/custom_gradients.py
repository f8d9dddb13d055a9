"""`gradient (dy) { .. }` behind a function: what it gives instead of the gradients of the body.

Assumes a call whose body has been elaborated. The gradient body is elaborated next to it, over placeholders for the
cotangents of the results; a `custom` node ties both together, and the results of the call are its results.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Outcome
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake, unsupported
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.statements.branches import leaves, rebuild
from dfc.elaborate.types.convert import is_operand, tensor
from dfc.elaborate.types.declared import ConstType, DeclaredType, TupleType
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import NOTHING, Entity, TupleValue, Unknown
from dfc.elaborate.types.fitting import fit_tensor
from dfc.ir.graph import Value
from dfc.ops.attributes import CustomAttributes
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


def with_gradient(
    context: Context,
    item: tree.FunctionItem | tree.ProcedureItem,
    types: Sequence[DeclaredType],
    result: DeclaredType | None,
    value: Entity,
    span: Span,
) -> Entity:
    """The results of a call, with the gradients that the function states; as they are if it states none.

    `context` is that of the body: its scope has the parameters, whose types are `types`."""
    if not isinstance(item, tree.FunctionItem) or item.gradient is None:
        return value
    results = [_float(context, leaf, item, span) for leaf in leaves(value)]
    at = context.at(item.gradient.span)
    cotangents = [at.apply("cotangent", y) for y in results]
    names = [p.name for p, t in zip(item.parameters, types, strict=True) if not isinstance(t, ConstType)]
    gradients = _stated_gradients(context, item, item.gradient, result, value, cotangents)
    if len(gradients) != len(names):
        raise _wrong_number(item, item.gradient, len(gradients), [name.text for name in names])
    parameters: list[Value] = []
    parameter_gradients: list[Value] = []
    for name, gradient in zip(names, gradients, strict=True):
        binding = context.scope.find(name.text)
        assert binding is not None, name
        for x, dx in _pairs(context, binding.value, gradient, name.text, item.gradient.span):
            parameters.append(x)
            parameter_gradients.append(dx)
    if not parameters:
        return value
    operands = [*results, *parameters, *cotangents, *parameter_gradients]
    node = context.at(span).add("custom", operands, [y.type for y in results], CustomAttributes(len(results)))
    return rebuild(value, list(node.results))


def _float(context: Context, leaf: Entity, item: tree.FunctionItem, span: Span) -> Value:
    if isinstance(leaf, Unknown):
        raise Abandoned
    value = tensor(context, leaf, span) if is_operand(leaf) else None
    if value is None or not value.tensor.dtype.is_float:
        raise mistake(
            "E0503",
            f"`{item.name.text}` has a gradient, but a result without one",
            item.name.span,
            "this is " + (str(value.tensor) if value is not None else describe(leaf)),
        )
    return value


def _stated_gradients(
    context: Context,
    item: tree.FunctionItem,
    gradient: tree.Gradient,
    result: DeclaredType | None,
    value: Entity,
    cotangents: Sequence[Value],
) -> tuple[Entity, ...]:
    """What the gradient body returns."""
    scope = Scope(context.scope)
    items = value.items if isinstance(value, TupleValue) else (value,)
    if len(gradient.names) != len(items):
        raise mistake(
            "E0505",
            f"`{item.name.text}` has {counted(len(items), 'result')}, and its `gradient` names {len(gradient.names)}",
            gradient.names[0].span,
            "one name for each result",
        )
    if isinstance(result, TupleType) and result.names:
        for name, entity in zip(result.names, items, strict=True):
            if name and scope.find(name) is None:
                scope.bind(name, entity, gradient.span, BindingRole.LET)
    targets = list(cotangents)
    for name, entity in zip(gradient.names, items, strict=True):
        scope.bind(name.text, rebuild(entity, targets), name.span, BindingRole.LET)
    outcome = Outcome("return")
    mistakes = context.program.reporter.error_count
    inner = context.changed(scope=scope, outcome=outcome, may_affect=False, loop=None)
    if isinstance(gradient.body, tree.ShortBody):
        returned: Entity | None = context.engine.right_hand_side(inner, gradient.body.value, None)
    else:
        context.engine.run_suite(inner, gradient.body)
        returned = outcome.value
    if context.program.reporter.error_count > mistakes:
        raise Abandoned
    if returned is None or returned is NOTHING:
        return ()
    many = isinstance(returned, TupleValue) and len(item.parameters) != 1
    return returned.items if many and isinstance(returned, TupleValue) else (returned,)


def _pairs(context: Context, parameter: Entity, gradient: Entity, name: str, span: Span) -> list[tuple[Value, Value]]:
    """The numbers with a fraction in a parameter, each with its gradient."""
    if isinstance(gradient, Unknown) or isinstance(parameter, Unknown):
        raise Abandoned
    parameter_leaves, gradient_leaves = leaves(parameter), leaves(gradient)
    if len(parameter_leaves) != len(gradient_leaves):
        raise _misfit(name, describe(parameter), describe(gradient), span)
    pairs: list[tuple[Value, Value]] = []
    for each, stated in zip(parameter_leaves, gradient_leaves, strict=True):
        if not is_operand(each):
            raise unsupported(f"a `gradient` for {describe(each)} is", span)
        x = tensor(context, each, span)
        if x.tensor.dtype.is_float:
            fitted = fit_tensor(
                context, stated, x.tensor, span, lambda expected, got: _misfit(name, expected, got, span), fill=True
            )
            pairs.append((x, fitted))
    return pairs


def _misfit(name: str, expected: str, got: str, span: Span) -> Mistake:
    return mistake("E0307", f"the gradient for `{name}` must be {expected}, but this is {got}", span)


def _wrong_number(item: tree.FunctionItem, gradient: tree.Gradient, got: int, names: Sequence[str]) -> Mistake:
    values = counted(got, "value")
    expected = ", ".join(f"`{name}`" for name in names)
    return mistake(
        "E0505",
        f"the `gradient` of `{item.name.text}` returns {values}, not {len(names)}",
        gradient.span,
        secondary=[(item.name.span, f"parameters: {expected}")],
        helps=(f"return one value for each of {expected}",),
    )
