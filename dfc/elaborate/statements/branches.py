"""`if`: decided at compile time where possible, otherwise a node with two regions.

A branch that is not taken at compile time is not elaborated. When the condition is an unknown constant (in the check
of a body by itself), all branches are checked and the first one's value stands for the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Expected, Outcome
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.shapes.obligations import Comparison, assume_all, comparisons, refused
from dfc.elaborate.shapes.size_inference import refuse_leaving
from dfc.elaborate.statements.regions import Region, tokens_after, touched
from dfc.elaborate.types.convert import condition, default_type, element_type, is_operand, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import NOTHING, Entity, ListValue, Tensor, TupleValue, Unknown
from dfc.elaborate.types.fitting import same_shape
from dfc.ir.graph import Value
from dfc.ir.regions import if_node, if_view
from dfc.syntax.tree import tree

Run = Callable[[Context], Entity]
MOST_BRANCHES = 200


@dataclass(slots=True)
class Side:
    """One elaborated branch of a runtime `if`."""

    context: Context
    value: Entity
    span: Span
    changed: dict[str, Entity]


def run_if(context: Context, node: tree.If, *, wants_value: bool) -> Entity:
    if len(node.branches) > MOST_BRANCHES:
        raise mistake("E1002", f"an `if` with more than {MOST_BRANCHES} branches", node.span)
    if wants_value and node.otherwise is None:
        raise mistake("E0307", "an `if` that gives a value needs an `else`", node.span)
    return _run_branches(context, node, 0, wants_value)


def _run_branches(context: Context, node: tree.If, position: int, wants_value: bool) -> Entity:
    if position == len(node.branches):
        return NOTHING if node.otherwise is None else _run_side(context, node.otherwise, wants_value)
    branch = node.branches[position]
    tested = context.changed(may_affect=False)
    holds = comparisons(tested, branch.condition)
    fails = refused(tested, branch.condition)
    entity = context.engine.evaluate(tested, branch.condition)
    decided = condition(tested, entity, branch.condition.span, "if")

    def then(inner: Context) -> Entity:
        assume_all(inner, holds)
        return _run_side(inner, branch.body, wants_value)

    def otherwise(inner: Context) -> Entity:
        assume_all(inner, fails)
        return _run_branches(inner, node, position + 1, wants_value)

    return decide(context, decided, (then, otherwise), _branch_spans(node, position), node.span)


def _branch_spans(node: tree.If, position: int) -> tuple[Span, Span]:
    following = node.branches[position + 1].body if position + 1 < len(node.branches) else node.otherwise
    return _value_span(node.branches[position].body), _value_span(following) if following else node.span


def _value_span(suite: tree.Suite) -> Span:
    final = suite.final
    return final.values[0].span.to(final.values[-1].span) if final is not None and final.values else suite.span


def _run_side(context: Context, suite: tree.Suite, wants_value: bool) -> Entity:
    outcome = Outcome("yield" if wants_value else "")
    inner = context.changed(scope=Scope(context.scope), outcome=outcome)
    context.engine.run_suite(inner, suite)
    context.frame.of_branches.update(inner.scope.names)
    if outcome.value is None:
        if wants_value and not isinstance(suite.final, tree.Yield):
            raise mistake("E0307", "this side of the `if` gives no value", suite.span, helps=("end it with `yield`",))
        return NOTHING
    return outcome.value if wants_value else NOTHING


def choose(context: Context, expression: tree.Conditional, expected: Expected) -> Entity:
    """`if c then a else b`"""
    holds = comparisons(context, expression.condition)
    fails = refused(context, expression.condition)
    entity = context.engine.evaluate(context, expression.condition)
    try:
        decided = condition(context, entity, expression.condition.span, "if")
    except Mistake as problem:
        raise _elementwise(expression, problem) from None

    def side(value: tree.Expression, known: list[Comparison]) -> Run:
        def run(inner: Context) -> Entity:
            assume_all(inner, known)
            return inner.engine.evaluate(inner, value, expected)

        return run

    spans = (expression.then.span, expression.otherwise.span)
    runs = (side(expression.then, holds), side(expression.otherwise, fails))
    return decide(context, decided, runs, spans, expression.span)


def _elementwise(expression: tree.Conditional, problem: Mistake) -> Mistake:
    """`if` over a tensor: `select` is probably what is meant."""
    diagnostic = problem.diagnostic
    texts = [part.span.text for part in (expression.condition, expression.then, expression.otherwise)]
    if diagnostic.code != "E0308" or "per element" not in diagnostic.title or any("\n" in text for text in texts):
        return problem
    text = f"select({', '.join(texts)})"
    written = replacing(f"to choose element by element, write `{text}`", expression.span, text)
    return Mistake(diagnostic.with_helps([written, *diagnostic.remedies]))


# ---------------------------------------------------------------- deciding --


def decide(
    context: Context, decided: bool | Value | None, runs: tuple[Run, Run], spans: tuple[Span, Span], span: Span
) -> Entity:
    if isinstance(decided, bool):
        return runs[0 if decided else 1](context.changed())
    if decided is None:
        return _check_all(context, runs)
    sides = [_elaborate(context, run, side_span) for run, side_span in zip(runs, spans, strict=True)]
    return _join(context, decided, sides, span)


def _check_all(context: Context, runs: Sequence[Run]) -> Entity:
    entities: list[Entity] = []
    for run in runs:
        try:
            entities.append(run(context.changed()))
        except Mistake as problem:
            context.program.reporter.report(problem.diagnostic)
        except Abandoned:
            pass
    if not entities:
        raise Abandoned
    return next((entity for entity in entities if entity is not NOTHING), NOTHING)


def _elaborate(context: Context, run: Run, span: Span) -> Side:
    """Runs a branch in a region of its own; loop variables it changes are put back and reported."""
    carries = context.loop.carries if context.loop is not None else {}
    before = {name: binding.value for name, binding in carries.items()}
    inner = context.changed(region=Region(context.region), scope=Scope(context.scope))
    try:
        value = run(inner)
    finally:
        after = {name: binding.value for name, binding in carries.items()}
        for name, binding in carries.items():
            binding.entity = before[name]
    changed = {name: after[name] for name in carries if after[name] is not before[name]}
    return Side(inner, value, span, changed)


def _join(context: Context, test: Value, sides: list[Side], span: Span) -> Entity:
    names = sorted({name for side in sides for name in side.changed})
    carries = context.loop.carries if context.loop is not None else {}
    structures: list[list[Entity]] = []
    for side in sides:
        current = [side.changed.get(name, carries[name].value) for name in names]
        structures.append([side.value, *current])
    if any(isinstance(side.value, Unknown) for side in sides):
        raise Abandoned
    flat = [[leaf for entity in entities for leaf in leaves(entity)] for entities in structures]
    if len(flat[0]) != len(flat[1]) or not _alike(structures[0][0], structures[1][0]):
        raise _different(sides, describe(sides[0].value), describe(sides[1].value))
    outputs = _materialise(context, sides, flat)
    results = _append(context, test, sides, outputs, span)
    rebuilt = [rebuild(entity, results) for entity in structures[0]]
    for name, entity in zip(names, rebuilt[1:], strict=True):
        carries[name].entity = entity
    return rebuilt[0]


def leaves(entity: Entity) -> list[Entity]:
    """The tensors of a tuple, in order."""
    match entity:
        case TupleValue(items):
            return [leaf for item in items for leaf in leaves(item)]
        case _ if entity is NOTHING:
            return []
        case _:
            return [entity]


def rebuild(entity: Entity, values: list[Value]) -> Entity:
    """An entity of the same structure with the next values in place of its tensors."""
    match entity:
        case TupleValue(items, names):
            return TupleValue(tuple(rebuild(item, values) for item in items), names)
        case _ if entity is NOTHING:
            return NOTHING
        case _:
            return Tensor(values.pop(0))


def _alike(a: Entity, b: Entity) -> bool:
    if isinstance(a, TupleValue) and isinstance(b, TupleValue):
        return len(a.items) == len(b.items) and all(_alike(x, y) for x, y in zip(a.items, b.items, strict=True))
    return not isinstance(a, TupleValue) and not isinstance(b, TupleValue) and (a is NOTHING) == (b is NOTHING)


def _materialise(context: Context, sides: list[Side], flat: list[list[Entity]]) -> list[list[Value]]:
    """The outputs of both branches; a number takes the type of its counterpart."""
    outputs: list[list[Value]] = [[], []]
    for pair in zip(*flat, strict=True):
        known = [element_type(entity) for entity in pair]
        both = default_type(ListValue(pair))
        for number, (side, entity) in enumerate(zip(sides, pair, strict=True)):
            if isinstance(entity, Unknown):
                raise Abandoned
            if not is_operand(entity):
                title = f"an `if` decided at run time cannot choose {describe(entity)}"
                raise mistake("E0309", title, side.span, helps=("make the condition a constant",))
            dtype = known[number] or known[1 - number] or both
            value = tensor(side.context, entity, side.span, dtype)
            refuse_leaving(side.context.region, value, side.span)
            outputs[number].append(value)
        left, right = outputs[0][-1].tensor, outputs[1][-1].tensor
        if left.dtype != right.dtype or not same_shape(context, left.shape, right.shape):
            raise _different(sides, str(left), str(right))
    return outputs


def _different(sides: list[Side], left: str, right: str) -> Mistake:
    return mistake(
        "E0307",
        "the two sides of an `if` must have one type",
        sides[1].span,
        right,
        secondary=[(sides[0].span, left)],
    )


def _append(context: Context, test: Value, sides: list[Side], outputs: list[list[Value]], span: Span) -> list[Value]:
    regions = [side.context.region for side in sides]
    resources = touched(regions)
    then, otherwise = (r.close(values, resources) for r, values in zip(regions, outputs, strict=True))
    parent = context.region
    tokens = [parent.token(resource) for resource in resources]
    builder = context.at(span)
    node = builder.append(if_node(test, then, otherwise, tokens, origin=builder))
    tokens_after(parent, node, resources, regions)
    return list(if_view(node).results.values)
