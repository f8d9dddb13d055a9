"""`grad` and `jacobian`: finding the target in what the loss depends on, and saying where a path ends.

The node `grad` is expanded by a later pass; here it is only made sure that there is a path (E0501), that nothing on
it stops the gradient (E0502), and that the loss is one number (E0503) that depends on one snapshot of a variable
(E0504).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import listed
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.dependencies import Dependencies, stopping_reason
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.convert import is_operand, not_an_operand, tensor
from dfc.elaborate.types.entities import (
    Constant,
    Entity,
    ListValue,
    Tensor,
    TupleValue,
    Unknown,
    Untyped,
    VariableValue,
)
from dfc.ir.graph import Node, ResourceKind, Value
from dfc.ops import registry
from dfc.ops.attributes import ArgAttributes, CastAttributes
from dfc.ops.control.derivatives import is_custom


@dataclass(slots=True)
class Target:
    """What is differentiated for: a value, with its name for messages."""

    value: Value
    name: str


# -------------------------------------------------------------------- calls --


def make_grad(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    """`grad(loss, w)`, `grad(loss, [w, b])`, `grad(loss, params(net))`"""
    del expected
    loss = _loss(context, arguments["loss"], arguments["targets"])
    entity = value_of(context, arguments["targets"])
    if isinstance(entity, Unknown):
        raise Abandoned
    many = isinstance(entity, ListValue | TupleValue)
    entities = entity.items if isinstance(entity, ListValue | TupleValue) else (entity,)
    if not entities:
        return ListValue(())
    smooth = _dependencies(context, loss)
    targets = [_target(context, each, smooth, arguments, span) for each in entities]
    operands = [loss, *(target.value for target in targets)]
    node = context.at(span).add("grad", operands, [target.value.type for target in targets])
    results = tuple(Tensor(value) for value in node.results)
    return ListValue(results) if many else results[0]


def make_jacobian(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    """`jacobian(y, x)`: one row for each element of y."""
    del expected
    y = _operand(context, arguments["y"])
    if y.tensor.rank > 1:
        title = "`jacobian` takes the gradients of a number or a vector"
        raise mistake("E0503", title, arguments["y"].span, str(y.tensor))
    smooth = _dependencies(context, y)
    entity = value_of(context, arguments["x"])
    target = _target(context, entity, smooth, {"loss": arguments["y"], "targets": arguments["x"]}, span)
    type_ = target.value.tensor.with_shape((*y.tensor.shape, *target.value.tensor.shape))
    return Tensor(context.at(span).add("jacobian", [y, target.value], [type_]).result)


def _dependencies(context: Context, loss: Value) -> Dependencies:
    """What a gradient of the loss can be taken for, walked to once for all gradients of it in a block: what a value is
    made of stays as it is while a block is filled behind it."""
    known = context.region.differentiated
    if loss not in known:
        known[loss] = Dependencies(loss, smooth=True)
    return known[loss]


def _operand(context: Context, argument: Argument) -> Value:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, argument.span)
    return tensor(context, entity, argument.span)


def _loss(context: Context, argument: Argument, targets: Argument) -> Value:
    loss = _operand(context, argument)
    text = argument.span.text
    if loss.tensor.shape:
        per_example = ": one loss per example" if loss.tensor.rank == 1 else ""
        raise mistake(
            "E0503",
            "only a single number has a gradient",
            argument.span,
            f"{loss.tensor}{per_example}",
            helps=(
                replacing(f"average them: `grad(mean({text}), {targets.span.text})`", argument.span, f"mean({text})"),
                "for one row per element of the loss, use `jacobian`",
            ),
        )
    if not loss.tensor.dtype.is_float:
        raise mistake("E0503", "only a floating-point number has a gradient", argument.span, str(loss.tensor))
    return loss


def _target(
    context: Context, entity: Entity, smooth: Dependencies, arguments: Mapping[str, Argument], span: Span
) -> Target:
    target_span = arguments["targets"].span
    match entity:
        case VariableValue(variable) if variable.kind is ResourceKind.VARIABLE:
            return _variable_target(context, variable, smooth, arguments, span)
        case Tensor(value):
            target = Target(value, target_span.text)
            if value not in smooth:
                _explain(context, [value], target.name, smooth, arguments, span)
            return target
        case Unknown():
            raise Abandoned
        case _:
            number = isinstance(entity, Constant | Untyped) and target_span.text.isidentifier()
            helps = (f"give it a type where it stands: `let {target_span.text}: f32 = ...`",) if number else ()
            raise mistake("E0316", "the target of a gradient is a variable or a value above", target_span, helps=helps)


def _variable_target(
    context: Context, variable: Variable, smooth: Dependencies, arguments: Mapping[str, Argument], span: Span
) -> Target:
    reads = smooth.reads_of(variable)
    if len(reads) > 1 or any(smooth.is_inside(value) for value in reads):
        raise _ambiguous(variable, reads, arguments, span)
    if reads:
        return Target(reads[0], variable.name)
    everything = Dependencies(smooth.loss, smooth=False)
    _explain(context, everything.reads_of(variable), variable.name, smooth, arguments, span, everything)
    return Target(context.region.read(variable), variable.name)


def _ambiguous(variable: Variable, reads: Sequence[Value], arguments: Mapping[str, Argument], span: Span) -> Mistake:
    reads_at = [value.node.span for value in reads if value.node is not None]
    return mistake(
        "E0504",
        f"`{arguments['loss'].span.text}` depends on `{variable.name}` before and after it was written",
        span,
        "which of the two is meant?",
        secondary=[(read_span, "reads it") for read_span in reads_at[:2] if not read_span.is_nowhere],
        helps=("take the gradient before the write, or with respect to a value: `let now = ...`",),
    )


# ------------------------------------------------------------- explanations --


def _explain(
    context: Context,
    values: Sequence[Value],
    name: str,
    smooth: Dependencies,
    arguments: Mapping[str, Argument],
    span: Span,
    everything: Dependencies | None = None,
) -> None:
    """Raises E0501 or E0502; returns only if an earlier mistake hides the path."""
    full = everything if everything is not None else Dependencies(smooth.loss, smooth=False)
    blocked = next((value for value in values if value in full), None)
    loss = arguments["loss"].span.text
    shown = loss if len(loss) <= 30 and "\n" not in loss else "the loss"
    if blocked is not None:
        raise _blocked_path(full.path_from(blocked), name, shown, span)
    if context.program.broken or context.program.reporter.error_count:
        raise Abandoned
    sources = full.sources()
    carried = [each for each in sources if context.loop is not None and each in context.loop.carries]
    title = f"`{shown}` does not depend on `{name}`"
    raise mistake(
        "E0501",
        title if shown != "the loss" else f"the loss does not depend on `{name}`",
        span,
        "would be zero everywhere",
        notes=[
            f"`{shown}` depends on {listed(sources)}" if sources else f"`{shown}` is a constant",
            *(
                f"`{each}` is carried by the loop: what it was made of in earlier iterations does not count"
                for each in carried
            ),
        ],
        helps=(_zeros(name, arguments["targets"].span, span),),
    )


def _zeros(name: str, target: Span, span: Span) -> Help:
    words = f"if that is intended, write `zeros_like({name})`"
    return replacing(words, span, f"zeros_like({name})") if target.text == name else words


def _blocked_path(path: list[Value], name: str, loss: str, span: Span) -> Mistake:
    words = [name, *(_shown(value) for value in path[1:] if value.node is not None), loss]
    culprit = next((value for value in path[1:] if stopping_reason(value)), None)
    if culprit is None:
        culprit = next((v for v in path[1:] if v.node is not None and is_custom(v.node)), None)
    if culprit is None:
        culprit = next((v for v in path[1:] if not _float_operand(v, path)), path[-1])
    node = culprit.node
    assert node is not None
    reason = stopping_reason(culprit) or (
        "its `gradient` states none for it" if is_custom(node) else "no gradient passes"
    )
    written = [text for text, following in zip(words, [*words[1:], ""], strict=True) if text != following]
    return mistake(
        "E0502",
        f"`{loss}` cannot be differentiated with respect to `{name}`",
        span,
        secondary=[(node.span, f"the gradient is lost here: {reason}")] if not node.span.is_nowhere else [],
        notes=(f"path: {' -> '.join(written)}",),
        helps=_remedy(node),
    )


def _float_operand(value: Value, path: Sequence[Value]) -> bool:
    before = path[path.index(value) - 1]
    return before.tensor.dtype.is_float


def _shown(value: Value) -> str:
    node = value.node
    assert node is not None
    if isinstance(node.attributes, CastAttributes):
        return f"as {node.attributes.dtype}"
    record = registry.find(node.op)
    return record.operator if record is not None and record.operator else node.op


def _remedy(node: Node) -> tuple[str, ...]:
    if isinstance(node.attributes, ArgAttributes):
        scores = _text(node.operands[0])
        return (f"train on the scores themselves, for example with `cross_entropy({scores}, labels)`",)
    if node.op == "stop_gradient":
        return ("leave out `stop_gradient`",)
    return ()


def _text(value: Value) -> str:
    span = value.node.span if value.node is not None else None
    text = span.text if span is not None else value.name
    return text if text and "\n" not in text and len(text) < 40 else "scores"
