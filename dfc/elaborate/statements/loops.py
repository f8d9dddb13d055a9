"""`loop .. while`, `loop .. for` and `for`: nodes with regions.

A body is elaborated once on the assumption that a variable read in it is not written in it, so that the read stands
before the loop; if the body turns out to write one of these, it is elaborated again with their reads inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.elaborate.context import EMITTED, Context, LoopState, Outcome
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.expressions.operators import as_size
from dfc.elaborate.expressions.recomputing import refuse_on_while, segment_length
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.names.scope import PROTECTED, BindingRole, Scope
from dfc.elaborate.shapes.obligations import assume_all, comparisons
from dfc.elaborate.shapes.size_inference import refuse_leaving
from dfc.elaborate.statements.branches import leaves, rebuild
from dfc.elaborate.statements.regions import Region, parameter, tokens_after, touched
from dfc.elaborate.types.convert import condition, element_type, is_operand, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    UNKNOWN,
    Constant,
    Entity,
    ListValue,
    Size,
    Tensor,
    TupleValue,
    Unknown,
)
from dfc.elaborate.types.fitting import fit, same_shape
from dfc.elaborate.types.types import expected_of, resolve_type
from dfc.ir.dims import ZERO, Dim, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Value
from dfc.ir.regions import for_node, for_view, while_node, while_view
from dfc.ops.attributes import AxisAttributes
from dfc.ops.control.iterations import size_of, trip_count
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


@dataclass(slots=True)
class Carried:
    """A loop variable with its value before the first iteration."""

    name: str
    initial: Entity
    span: Span
    value_span: Span


@dataclass(slots=True)
class Body:
    """One elaborated iteration."""

    region: Region
    outputs: list[Value]
    state: LoopState
    condition: Region | None = None
    test: Value | None = None
    emitted: tuple[Value, ...] = ()


@dataclass(slots=True)
class Counting:
    """How often a `for` runs: bounds of the index, the trip count if it is a size, and what the names mean."""

    start: Value
    stop: Value
    first: Dim | Value
    trips: Dim | None
    bindings: list[tuple[tree.Binding, Callable[[Context, Value], Entity]]] = field(
        default_factory=list[tuple[tree.Binding, "Callable[[Context, Value], Entity]"]]
    )


def run_loop(context: Context, node: tree.Loop) -> Entity:
    carried = [_carried(context, each) for each in node.carries]
    if isinstance(node.head, tree.WhileHead):
        refuse_on_while(node.settings)
        return _run_while(context, node, node.head, carried)
    return run_for(context, node.head.bindings, carried, node.body, node.span, node.settings)


def _carried(context: Context, carry: tree.Carry) -> Carried:
    name = carry.name.text
    binding = context.scope.find(name)
    if binding is not None and binding.role in PROTECTED:
        raise mistake(
            "E0205",
            f"`{name}` is the name of {binding.role.one} already",
            carry.name.span,
            secondary=[(binding.span, f"the {binding.role.value}")] if not binding.span.is_nowhere else [],
        )
    here = context.operand().changed(label=f"{context.frame.path}/{name}")
    typing = context.changed(unknown_sizes=True)
    declared = resolve_type(typing, carry.type) if carry.type is not None else None
    expected = expected_of(declared)
    entity = context.engine.evaluate(here, carry.value, expected)
    if declared is not None:

        def complain(expected: str, got: str) -> Exception:
            return mistake("E0307", f"`{name}` is declared as {expected}, but this is {got}", carry.value.span)

        return Carried(name, fit(here, entity, declared, carry.value.span, complain, fill=True), carry.span, carry.span)
    return Carried(name, _as_tensors(here, entity, carry.value.span), carry.span, carry.value.span)


def _as_tensors(context: Context, entity: Entity, span: Span) -> Entity:
    if isinstance(entity, TupleValue):
        return TupleValue(tuple(_as_tensors(context, e, span) for e in entity.items), entity.names)
    return Tensor(tensor(context, entity, span))


# --------------------------------------------------------------- one iteration --


def _enter(
    context: Context, region: Region, suite: tree.Suite, carried: Sequence[Carried]
) -> tuple[Context, LoopState]:
    """A context for the body, in which the loop variables are parameters of the region."""
    state = LoopState(suite)
    scope = Scope(context.scope)
    for each in carried:
        entity = _parameters(region, each.initial, each.name)
        state.carries[each.name] = scope.bind(each.name, entity, each.value_span, BindingRole.LOOP)
    inner = context.changed(region=region, scope=scope, loop=state, outcome=Outcome(""), may_affect=False)
    return inner, state


def _parameters(region: Region, initial: Entity, name: str) -> Entity:
    match initial:
        case TupleValue(items, names):
            shown = names or tuple(str(n) for n in range(len(items)))
            parts = [_parameters(region, e, f"{name}.{n}") for e, n in zip(items, shown, strict=True)]
            return TupleValue(tuple(parts), names)
        case Tensor(value):
            return Tensor(parameter(region, value.type, name))
        case _:
            raise Abandoned


def _values(entities: Sequence[Entity]) -> list[Value]:
    return [leaf.value for entity in entities for leaf in leaves(entity) if isinstance(leaf, Tensor)]


def _until_stable(context: Context, key: tree.Suite, elaborate: Callable[[frozenset[str]], Body]) -> Body:
    """Elaborates a body; again, with reads inside, if it writes what was read before the loop."""
    root = context.frame.root
    memory = (context.frame.path, id(key))
    pinned = root.loop_writes.get(memory, frozenset[str]())
    while True:
        mark = context.region.mark()
        effects, checks = len(root.effects), len(root.checks)
        body = elaborate(pinned)
        regions = [body.region] if body.condition is None else [body.region, body.condition]
        written = frozenset(name for region in regions for name in region.written)
        hoisted = frozenset(name for region in regions for name in region.hoisted)
        if not written & hoisted:
            return body
        mark.restore()
        del root.effects[effects:], root.checks[checks:]
        pinned |= written
        root.loop_writes[memory] = pinned


# ------------------------------------------------------------------- while --


def _run_while(context: Context, node: tree.Loop, head: tree.WhileHead, carried: list[Carried]) -> Entity:
    body = _until_stable(context, node.body, lambda pinned: _while_round(context, node, head, carried, pinned))
    if body.state.emitted:
        raise unsupported("`emit` in a `while` loop, whose number of iterations is not known, is", node.span)
    _check_ends(context, node, head, carried, body)
    assert body.condition is not None and body.test is not None
    regions = [body.condition, body.region]
    resources = touched(regions)
    blocks = body.condition.close([body.test], resources), body.region.close(body.outputs, resources)
    operands = [*_values([each.initial for each in carried]), *(context.region.token(r) for r in resources)]
    builder = context.at(node.span)
    loop = builder.append(while_node(operands, *blocks, origin=builder))
    tokens_after(context.region, loop, resources, regions)
    return _result(carried, list(while_view(loop).results.values), (), body.state.failed)


def _while_round(
    context: Context, node: tree.Loop, head: tree.WhileHead, carried: list[Carried], pinned: frozenset[str]
) -> Body:
    before = Region(context.region, pinned)
    tested, _ = _enter(context, before, node.body, carried)
    tested.loop = None
    span = head.condition.span
    holds = comparisons(tested, head.condition)
    entity = context.engine.evaluate(tested, head.condition)
    decided = condition(tested, entity, span, "while")
    test = decided if isinstance(decided, Value) else tensor(tested, entity, span)
    region = Region(context.region, pinned)
    inner, state = _enter(context, region, node.body, carried)
    assume_all(inner, holds)
    context.engine.run_suite(inner, node.body)
    outputs = _values([binding.value for binding in state.carries.values()])
    return Body(region, outputs, state, before, test, state.emitted)


def _check_ends(context: Context, node: tree.Loop, head: tree.WhileHead, carried: list[Carried], body: Body) -> None:
    """E0602: nothing that the condition depends on ever changes. What a statement would have changed that was given up
    (it has a mistake, or calls a function that only the caller knows) may do so."""
    names = {n.text for n in tree.walk(head.condition) if isinstance(n, tree.Name)}
    assert body.condition is not None
    reads_state = bool(body.condition.entering)
    if names & (body.state.rebound | body.state.failed) or reads_state:
        return
    if isinstance(head.condition, tree.BooleanLiteral) and not head.condition.value:
        return
    suspects = [each for each in carried if each.name in names]
    depends = f"depends only on {', '.join(f'`{each.name}`' for each in suspects)}" if suspects else "never changes"
    helps = [f"add `{suspects[0].name} = ...` to the body"] if suspects else []
    raise mistake(
        "E0602",
        "this loop cannot end once it has begun",
        head.condition.span,
        depends,
        secondary=[(each.span, "never given a new value in the body") for each in suspects],
        helps=helps,
    )


def _result(carried: Sequence[Carried], values: list[Value], emits: Sequence[Value], failed: set[str]) -> Entity:
    if EMITTED in failed:
        return UNKNOWN
    rebuilt = [(each.name, rebuild(each.initial, values)) for each in carried]
    items: list[Entity] = [UNKNOWN if name in failed else entity for name, entity in rebuilt]
    items += [Tensor(value) for value in emits]
    if not items:
        return NOTHING
    return items[0] if len(items) == 1 else TupleValue(tuple(items))


# --------------------------------------------------------------------- for --


def run_for(
    context: Context,
    bindings: Sequence[tree.Binding],
    carried: Sequence[Carried],
    suite: tree.Suite,
    span: Span,
    settings: Sequence[tree.Setting],
) -> Entity:
    recompute = segment_length(context, settings)
    counting = _counting(context, bindings, span)
    body = _until_stable(context, suite, lambda pinned: _for_round(context, counting, carried, suite, pinned))
    for value in body.emitted:
        refuse_leaving(body.region, value, body.state.emit_span or span)
    if body.emitted and counting.trips is None:
        raise unsupported("`emit` in a loop whose number of iterations is only known at run time is", span)
    resources = touched([body.region])
    block = body.region.close([*body.outputs, *body.emitted], resources)
    initial = [*_values([each.initial for each in carried]), *(context.region.token(r) for r in resources)]
    builder, bounds = context.at(span), (counting.start, counting.stop)
    loop = for_node(*bounds, initial, block, trips=counting.trips, recompute=recompute, origin=builder)
    builder.append(loop)
    tokens_after(context.region, loop, resources, [body.region])
    results = for_view(loop).results
    return _result(carried, list(results.values), list(results.emitted), body.state.failed)


def _for_round(
    context: Context, counting: Counting, carried: Sequence[Carried], suite: tree.Suite, pinned: frozenset[str]
) -> Body:
    region = Region(context.region, pinned)
    index = parameter(region, counting.start.type, "index")
    inner, state = _enter(context, region, suite, carried)
    for binding, meaning in counting.bindings:
        name = binding.name.text
        if name != "_":
            inner.scope.bind(name, meaning(inner, index), binding.name.span, BindingRole.LET)
    context.engine.run_suite(inner, suite)
    outputs = _values([binding.value for binding in state.carries.values()])
    return Body(region, outputs, state, emitted=state.emitted)


def _counting(context: Context, bindings: Sequence[tree.Binding], span: Span) -> Counting:
    """The range a `for` runs over; all its bindings must have the same number of iterations."""
    ranges = [binding for binding in bindings if binding.stop is not None]
    counting: Counting | None = None
    if ranges:
        counting = _range(context, ranges[0])
    for binding in bindings:
        if binding.stop is not None and counting is not None and binding is ranges[0]:
            counting.bindings.append((binding, lambda _context, index: Tensor(index)))
        elif binding.stop is not None:
            raise unsupported("two ranges in one `for` are", binding.span)
        else:
            counting = _over(context, binding, counting)
    assert counting is not None, span
    return counting


def _range(context: Context, binding: tree.Binding) -> Counting:
    assert binding.stop is not None
    low = context.engine.evaluate(context.operand(), binding.start)
    high = context.engine.evaluate(context.operand(), binding.stop)
    if isinstance(low, Unknown) or isinstance(high, Unknown):
        raise Abandoned
    dtype = element_type(low) or element_type(high) or I64
    for entity, entity_span in ((low, binding.start), (high, binding.stop)):
        own = element_type(entity)
        if not is_operand(entity) or (own is not None and not own.is_integer):
            raise mistake("E0316", "a loop counts in whole numbers", entity_span.span, describe(entity))
    start = tensor(context, low, binding.start.span, dtype)
    stop = tensor(context, high, binding.stop.span, dtype)
    for value, entity_span in ((start, binding.start), (stop, binding.stop)):
        if value.tensor.shape:
            raise mistake("E0316", "a loop counts to a single number", entity_span.span, str(value.tensor))
    if start.tensor.dtype != stop.tensor.dtype:
        title = f"the bounds of a loop must have one type, not {start.tensor.dtype} and {stop.tensor.dtype}"
        raise mistake("E0302", title, binding.start.span.to(binding.stop.span))
    first, last = _bound(low), _bound(high)
    trips = trip_count(first, last, context.facts) if first is not None and last is not None else None
    return Counting(start, stop, first if first is not None else start, trips)


def _bound(entity: Entity) -> Dim | None:
    """A bound as a size, also where a node has made a number of it."""
    size = as_size(entity)
    return size_of(entity.value) if size is None and isinstance(entity, Tensor) else size


def _over(context: Context, binding: tree.Binding, counting: Counting | None) -> Counting:
    """`x in xs`: along the first axis."""
    entity = context.engine.evaluate(context.operand(), binding.start)
    span = binding.start.span
    if isinstance(entity, ListValue):
        raise mistake("E0316", "`for` goes over an axis of a tensor", span, helps=("lists are unrolled by `each`",))
    xs = tensor(context, entity, span)
    if not xs.tensor.shape:
        raise mistake("E0316", "`for` goes over the first axis of a tensor", span, "this is a single number")
    size = xs.tensor.shape[0]
    if counting is None:
        zero = context.at(span).constant(0, I64)
        stop = (
            tensor(context, Constant(size.constant), span) if size.constant is not None else context.at(span).size(size)
        )
        counting = Counting(zero, stop, dim(0), size)
    elif counting.trips is None:
        raise unsupported("a range known only at run time beside a tensor is", span)
    elif not same_shape(context, (counting.trips,), (size,)):
        elements, times = counted(size, "element"), counted(counting.trips, "time")
        raise mistake("E0305", f"this has {elements}, and the loop runs {times}", span)
    base = counting.first

    def element(inner: Context, index: Value) -> Entity:
        spans = OperationSpans("for", span, (span,))
        offset = index
        if base != ZERO:
            first = base if isinstance(base, Value) else tensor(inner, Size(base), span)
            offset = apply(inner, "sub", [index, first], spans)
        return Tensor(apply(inner, "gather", [xs, offset], spans, AxisAttributes(0)))

    counting.bindings.append((binding, element))
    return counting
