"""Calls of the program's own functions: the body is elaborated at the place of the call, with the real types.

Assumes that the body has been checked by itself (`dfc.elaborate.checking`), so that most mistakes in it have been
reported already; one that only shows with these arguments is reported at its place in the body.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import CALL_COST, DEPTH_LIMIT, Argument, Context, Expected, Frame, Outcome
from dfc.elaborate.expressions.custom_gradients import with_gradient
from dfc.elaborate.expressions.parameters import bind_all, match_arguments, require_all_known
from dfc.elaborate.expressions.repeated_calls import called_again
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.roles import BindingRole
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.shapes.cost_limit import refuse_cost
from dfc.elaborate.shapes.obligations import assume_all, require, where_conditions
from dfc.elaborate.types import promises
from dfc.elaborate.types.declared import DeclaredType, Signature, TupleType
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import NOTHING, UNKNOWN, Entity, Routine, Tensor, TupleValue
from dfc.elaborate.types.fitting import fit
from dfc.elaborate.types.generics import Matching, read_signature
from dfc.elaborate.types.promises import broken_promise
from dfc.elaborate.types.types import expected_of
from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree


def call_routine(
    context: Context, routine: Routine, arguments: Sequence[Argument], span: Span, expected: Expected
) -> Entity:
    """Elaborates the body of a `fn` or `proc` here and gives its result."""
    item = routine.item
    refuse_recursion(context, routine, span)
    refuse_cost(context.program, routine, span)
    context.program.grow(CALL_COST, span)
    signature = signature_of(context, routine)
    matching = Matching(context, signature)
    matching.give_explicitly(routine.explicit, span, routine.name)
    bound = match_arguments(context, matching, routine.name, arguments, span, routine.scope)
    if expected is not None and matching.missing() and isinstance(signature.result, TensorType):
        matching.match_shape(signature.result.shape, expected.shape)
        matching.match_dtype(signature.result.dtype, expected.dtype)
        matching.check()
    require_all_known(matching, routine.name, span)
    if id(item) in context.program.broken:
        return _alone(placeholder(matching.instantiate(signature.result))) if signature.result is not None else NOTHING
    inner = _enter(context, routine, span)
    bind_all(inner, matching, bound)
    _check_where(context, inner, item.where, routine.name, span)
    result = matching.instantiate(signature.result) if signature.result is not None else None
    entities = [each.entity for each in bound]
    value = called_again(
        context, routine, entities, result, lambda: _run_body(context, inner, routine, matching, result, span), span
    )
    return _alone(value)


def _alone(entity: Entity) -> Entity:
    """A single result is the value itself, also where the signature gives it a name: `-> (y: f32)`."""
    match entity:
        case TupleValue((only,), (_,)):
            return only
        case _:
            return entity


def refuse_recursion(context: Context, routine: Routine, span: Span) -> None:
    frame: Frame | None = context.frame
    path = [routine.name]
    while frame is not None:
        path.append(frame.name)
        same = frame.routine is not None and frame.routine.item is routine.item
        if same and frame.routine is not None and frame.routine.owner is routine.owner:
            raise mistake(
                "E0208",
                f"`{routine.name}` calls itself",
                span,
                notes=(" -> ".join(reversed(path)),),
                helps=("the graph is finite: repeat with `loop ... while ... { ... }`",),
            )
        frame = frame.parent
    if context.frame.depth > DEPTH_LIMIT:
        raise mistake("E1002", f"calls are nested more than {DEPTH_LIMIT} deep", span)


def signature_of(context: Context, routine: Routine) -> Signature:
    """The signature, read once for each scope the function lives in."""
    item = routine.item
    key = (id(item), routine.scope)
    known = context.program.signatures.get(key)
    if known is None:
        frame = Frame(kind_of(item), item.name.text, context.frame.path, item.name.span, context.frame.root)
        here = context.changed(frame=frame, scope=routine.scope)
        try:
            known = read_signature(here, routine.scope, item.generics, item.parameters, item.result)[0]
        except (Mistake, Abandoned):
            if not context.generic:
                context.program.broken.add(id(item))
            raise
        context.program.signatures[key] = known
    return known


def kind_of(item: tree.FunctionItem | tree.ProcedureItem) -> str:
    return "fn" if isinstance(item, tree.FunctionItem) else "proc"


# ------------------------------------------------------------------- body --


def _enter(context: Context, routine: Routine, span: Span) -> Context:
    frame = context.frame
    shown = routine.name
    part = routine.name
    if routine.owner is not None:
        short = routine.owner.name.rsplit(".", 1)[-1]
        shown = f"{short}.{routine.name}"
        part = short if routine.name == "apply" else f"{short}/{routine.name}"
    inner = Frame(
        kind_of(routine.item),
        shown,
        f"{frame.path}/{part}",
        Span(routine.item.span.file, routine.item.span.start, routine.item.span.start + len(kind_of(routine.item))),
        frame.root,
        frame,
        span,
        routine,
        frame.depth + 1,
    )
    return context.changed(frame=inner, scope=Scope(routine.scope), may_affect=False, outcome=None, loop=None)


def _check_where(context: Context, inner: Context, where: tuple[tree.Expression, ...], name: str, span: Span) -> None:
    """The `where` of a function is proved here, or checked by the entry."""
    if not where:
        return
    for (left, relation, right), condition in where_conditions(inner, where):
        text = " ".join(condition.text.split())
        reason = f"`{name}` needs {text}"
        if require(context, left, relation, right, reason, span) is False:
            raise mistake(
                "E0305",
                f"`{name}` needs {text}",
                span,
                f"here {left} {relation} {right} does not hold",
                secondary=[(condition, "required here")],
                helps=_within(inner, text, relation, right),
            )
        assume_all(inner, [(left, relation, right)])


def _within(inner: Context, condition: str, relation: str, limit: Dim) -> list[str]:
    """The limit of an argument that a condition is about: `height <= H` where H is 20."""
    name, words = condition.split(" ")[0], {"<=": "at most", ">=": "at least"}.get(relation)
    binding = inner.scope.own(name)
    if words is None or binding is None or binding.role is not BindingRole.PARAMETER or limit.constant is None:
        return []
    return [f"give `{name}` a number of {words} {limit}"]


def _run_body(
    context: Context, inner: Context, routine: Routine, matching: Matching, result: DeclaredType | None, span: Span
) -> Entity:
    item = routine.item
    outcome = Outcome("return", expected=expected_of(result))
    inner.outcome = outcome
    if isinstance(item.body, tree.ShortBody):
        inner.may_affect = True
        outcome.value = context.engine.right_hand_side(inner, item.body.value, outcome.expected)
        outcome.span = item.body.value.span
        inner.may_affect = False
    else:
        context.engine.run_suite(inner, item.body)
    value = finish(inner, outcome, result, item, span)
    return with_gradient(inner, item, matching.signature.types, result, value, span)


def finish(
    context: Context, outcome: Outcome, result: DeclaredType | None, item: promises.Declared, span: Span
) -> Entity:
    """The value of a body, which must have the promised type (E0307)."""
    value, written, name = outcome.value, item.result, item.name.text
    if result is None or written is None:
        if value is None or value is NOTHING:
            return NOTHING
        title, helps = (
            f"`{name}` promises no result but returns {describe(value)}",
            promises.first(context, item, value),
        )
        raise mistake("E0307", title, outcome.span, helps=helps)
    if value is None or value is NOTHING:
        outcome_span = outcome.span if not outcome.span.is_nowhere else span
        raise mistake(
            "E0307",
            f"`{name}` promises {result} but returns nothing",
            outcome_span,
            secondary=[(written.span, "promised here")],
        )
    if isinstance(result, TupleType) and isinstance(value, TupleValue):
        return _fit_list(context, value, result, outcome, item, written)
    offers = promises.offers_for_all(context, item, result, value, outcome.span)
    return fit(context, value, result, outcome.span, broken_promise(name, written.span, outcome.span, offers))


def _fit_list(
    context: Context,
    value: TupleValue,
    promised: TupleType,
    outcome: Outcome,
    item: promises.Declared,
    written: tree.TypeExpression,
) -> Entity:
    """A list of results that were promised one by one; a message is about the one that does not fit."""
    spans, fields, name = outcome.spans, promised.fields, item.name.text
    for_all = promises.offers_for_all(context, item, promised, value, outcome.span)
    if not len(value.items) == len(fields) == len(spans):
        return fit(context, value, promised, outcome.span, broken_promise(name, written.span, outcome.span, for_all))
    declared_spans = _promises(written, len(fields))
    fitted: list[Entity] = []
    names = promised.names or ("",) * len(fields)
    for entity, type_, called, span, value_span in zip(value.items, fields, names, spans, declared_spans, strict=True):
        whose = f"{called}` of `{name}" if called else name
        offers = for_all if value_span == written.span else promises.offers_for_one(context, value_span, span)
        fitted.append(fit(context, entity, type_, span, broken_promise(whose, value_span, span, offers)))
    return TupleValue(tuple(fitted), promised.names)


def _promises(written: tree.TypeExpression, count: int) -> list[Span]:
    """Where the type of each result is promised; an alias promises all of them in one place."""
    if not isinstance(written, tree.TupleType) or len(written.fields) != count:
        return [written.span] * count
    return [field.type.span if isinstance(field, tree.NamedField) else field.span for field in written.fields]


def placeholder(declared: DeclaredType) -> Entity:
    """Stands for the result of a function whose body has mistakes of its own."""
    match declared:
        case TensorType():
            return Tensor(Value(declared))
        case TupleType(fields, names):
            return TupleValue(tuple(placeholder(f) for f in fields), names)
        case _:
            return UNKNOWN
