"""Statements, one after the other. A statement with a mistake is reported and its names are unknown from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dfc.diagnostics.fixes import alone, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Expected
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.later import defined_later
from dfc.elaborate.names.scope import PROTECTED, BindingRole
from dfc.elaborate.shapes.cost_limit import refuse_iterations
from dfc.elaborate.shapes.obligations import add_check, append_assert, assume_all, comparisons, measured_among, of_value
from dfc.elaborate.shapes.size_inference import name_sizes
from dfc.elaborate.state.host_output import waited_for
from dfc.elaborate.statements.assignments import run_update
from dfc.elaborate.statements.branches import run_if
from dfc.elaborate.statements.effects import with_remedy
from dfc.elaborate.statements.loops import run_for, run_loop
from dfc.elaborate.statements.rebinding import run_rebind
from dfc.elaborate.statements.unknown_names import unknown_after
from dfc.elaborate.types.convert import condition, snapshot, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    UNKNOWN,
    Entity,
    ListValue,
    SizeCondition,
    Tensor,
    TupleValue,
    Unknown,
    VariableValue,
)
from dfc.elaborate.types.fitting import fit
from dfc.elaborate.types.types import expected_of, resolve_type
from dfc.ir.dtypes import ALL
from dfc.ops.attributes import AssertAttributes
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


def run_suite(context: Context, suite: tree.Suite) -> None:
    """Elaborates a block; `context.outcome` gets the value of its `return` or `yield`."""
    for number, statement in enumerate(suite.statements, 1):
        _guarded(context, statement, lambda s=statement: _run(context, suite, s), lambda n=number: suite.statements[n:])
    if suite.final is not None:
        final = suite.final
        if not _guarded(context, final, lambda: _finish(context, final)) and context.outcome is not None:
            context.outcome.value = UNKNOWN
    own = context.scope.names.values()
    context.frame.ended.update((each.name, each.span) for each in own if each.role is BindingRole.LET)


def _guarded(
    context: Context, node: tree.Node, run: Callable[[], None], following: Callable[[], Sequence[tree.Node]] = tuple
) -> bool:
    """Whether a statement went well. What follows it is asked for if not: a copy of it for each would add up."""
    try:
        run()
        return True
    except Mistake as problem:
        context.program.reporter.report(defined_later(with_remedy(problem.diagnostic, node), following()))
    except Abandoned:
        pass
    for name in unknown_after(context, node):
        context.scope.forget(name.text, name.span)
    return False


def _run(context: Context, suite: tree.Suite, statement: tree.Statement) -> None:
    match statement:
        case tree.Let():
            _run_let(context, statement)
        case tree.Rebind():
            run_rebind(_at_statement(context, statement), statement)
        case tree.Update():
            run_update(_at_statement(context, statement), statement)
        case tree.CallStatement():
            _run_call(_at_statement(context, statement), statement)
            _assume_checked(context)
        case tree.If():
            run_if(_at_statement(context, statement), statement, wants_value=False)
        case tree.For():
            run_for(
                _at_statement(context, statement),
                statement.bindings,
                (),
                statement.body,
                statement.span,
                statement.settings,
            )
        case tree.Loop():
            run_loop(_at_statement(context, statement), statement)
        case tree.EachStatement():
            for inner, _ in each_round(context, statement.bindings, statement.span):
                run_suite(inner, statement.body)
        case tree.Assert():
            _run_assert(context, statement)
        case tree.Emit():
            _run_emit(_at_statement(context, statement), suite, statement)


def _at_statement(context: Context, statement: tree.Node, label: str = "") -> Context:
    """The place of a statement, where a call may have effects."""
    after = tuple(value for path in getattr(statement, "after", ()) for value in waited_for(context, path))
    return context.changed(label=label or context.label, may_affect=True, after=after)


# ------------------------------------------------------------ right-hand sides --


def right_hand_side(context: Context, value: tree.RightHandSide, expected: Expected = None) -> Entity:
    match value:
        case tree.If():
            return run_if(context, value, wants_value=True)
        case tree.For():
            return run_for(context, value.bindings, (), value.body, value.span, value.settings)
        case tree.Loop():
            return run_loop(context, value)
        case tree.EachMap():
            repetitions = each_round(context, value.bindings, value.span)
            return ListValue(tuple(inner.engine.evaluate(inner, value.value) for inner, _ in repetitions))
        case _:
            return context.engine.evaluate(context, value, expected)


def each_round(
    context: Context, bindings: Sequence[tree.Binding], span: Span
) -> Iterator[tuple[Context, tuple[Entity, ...]]]:
    """One context for each iteration of an `each`, in which the names stand for the elements."""
    lists = [_elements(context, binding) for binding in bindings]
    if len({len(each) for each in lists}) > 1:
        sizes = " and ".join(str(len(each)) for each in lists)
        raise mistake("E0316", "these lists have different lengths", span, f"{sizes} elements")
    refuse_iterations(context, len(lists[0]), span)
    for number, elements in enumerate(zip(*lists, strict=True)):
        context.program.grow(1, span)
        inner = context.nested()
        inner.repetitions = context.repetitions * len(lists[0])
        if context.instance:
            key = elements[0].variable.name if isinstance(elements[0], VariableValue) else str(number)
            inner.instance = f"{context.instance}[{key}]"
        for binding, entity in zip(bindings, elements, strict=True):
            _refuse_shadowing(context, binding.name)
            inner.scope.bind(binding.name.text, entity, binding.name.span, BindingRole.REFERENCE)
        yield inner, elements


def _elements(context: Context, binding: tree.Binding) -> tuple[Entity, ...]:
    if binding.stop is not None:
        raise mistake("E0316", "`each` goes over a list; counting is `for i in 0..n`", binding.span)
    entity = context.engine.evaluate(context.operand(), binding.start)
    match entity:
        case ListValue(items) | TupleValue(items):
            return items
        case Unknown():
            raise Abandoned
        case _:
            raise mistake(
                "E0316",
                "`each` goes over a list of variables or tensors",
                binding.start.span,
                f"this is {describe(entity)}",
                helps=(f"to go over the first axis of a tensor, write `for {binding.name.text} in ...`",),
            )


# ------------------------------------------------------------------ simple --


def _run_let(context: Context, statement: tree.Let) -> None:
    binders = statement.binders
    for name in (*statement.fresh, *(binder.name for binder in binders)):
        _refuse_shadowing(context, name)
    first = next((b.name.text for b in binders if b.name.text != "_"), "")
    label = f"{context.frame.path}/{first}" if first else context.frame.path
    here = _at_statement(context, statement, label)
    here.unknown_sizes = False
    if statement.fresh:
        here.fresh = [name.text for name in statement.fresh]
    only = binders[0].type if len(binders) == 1 and not statement.fresh else None
    expected = expected_of(resolve_type(context.changed(unknown_sizes=True), only)) if only is not None else None
    entity = snapshot(here, right_hand_side(here, statement.value, expected), statement.value.span)
    if entity is NOTHING and first:
        raise _gives_nothing(statement.value)
    parts = (entity,) if len(binders) == 1 else _parts(entity, len(binders), statement)
    if statement.fresh:
        name_sizes(context, statement, parts)
    for binder, part in zip(binders, parts, strict=True):
        _bind(here, binder, part, label, statement.value.span)


def _gives_nothing(value: tree.RightHandSide) -> Mistake:
    """What stands behind `let name =` has no value, for which there could be a name."""
    if isinstance(value, tree.For | tree.Loop):
        helps = (
            "collect something: end the body with `emit ...`",
            "or carry something: `loop x = ... for ... { ... }`",
        )
        return mistake("E0316", "this loop gives no value", value.span, helps=helps)
    text = value.span.text
    helps = (f"write `{text}` alone",) if "\n" not in text else ()
    return mistake("E0316", "this gives no value", value.span, helps=helps)


def _bind(context: Context, binder: tree.Binder, entity: Entity, label: str, span: Span) -> None:
    name = binder.name.text
    if binder.type is not None:
        type_ = resolve_type(context.changed(unknown_sizes=True), binder.type)

        def complain(expected: str, got: str) -> Exception:
            return mistake(
                "E0307",
                f"`{name}` is declared as {expected}, but this is {got}",
                span,
                secondary=[(binder.span, "declared here")],
            )

        entity = fit(context, entity, type_, span, complain, fill=True)
    if name == "_":
        return
    if isinstance(entity, Tensor) and entity.value.node is not None and entity.value.node.name == label:
        _name_value(entity, f"{context.frame.path}/{name}")
    if isinstance(entity, Tensor) and not (context.frame.root.generic or context.frame.root.in_test):
        context.program.graph.bound[f"{context.frame.path}/{name}"] = entity.value
    context.scope.bind(name, entity, binder.name.span, BindingRole.LET)


def _name_value(tensor: Tensor, name: str) -> None:
    """Calls the value by the name it is bound to."""
    node = tensor.value.node
    if node is not None and len(node.results) == 1:
        node.name = name
        tensor.value.name = name


def _parts(entity: Entity, count: int, statement: tree.Let) -> tuple[Entity, ...]:
    span = statement.value.span
    match entity:
        case TupleValue(items) | ListValue(items):
            if len(items) == count:
                return items
            values = counted(len(items), "value")
            raise mistake(
                "E0316",
                f"{counted(count, 'name')} for {values}",
                statement.binders[0].span.to(statement.binders[-1].span),
                secondary=[(span, values)],
            )
        case Unknown():
            raise Abandoned
        case _:
            names = statement.binders[0].span.to(statement.binders[-1].span)
            raise mistake(
                "E0316", f"{counted(count, 'name')} for one value", names, secondary=[(span, describe(entity))]
            )


def _refuse_shadowing(context: Context, name: tree.Identifier) -> None:
    binding = context.scope.find(name.text)
    if name.text in ALL:
        raise mistake("E0205", f"`{name.text}` is an element type", name.span)
    if binding is None or binding.role not in PROTECTED or name.text == "_":
        return
    raise mistake(
        "E0205",
        f"`{name.text}` is the name of {binding.role.one} already",
        name.span,
        secondary=[(binding.span, f"the {binding.role.value}")] if not binding.span.is_nowhere else [],
        helps=(f"choose another name, such as `{name.text}_here`",),
    )


def _run_call(context: Context, statement: tree.CallStatement) -> None:
    if not isinstance(statement.call, tree.Call):
        raise mistake("E0404", "this statement does nothing", statement.span)
    before = len(context.frame.root.effects)
    entity = context.engine.evaluate(context, statement.call)
    if isinstance(entity, Unknown):
        raise Abandoned
    if entity is not NOTHING and len(context.frame.root.effects) == before and not context.generic:
        text = statement.call.span.text
        helps = [replacing("delete the line, if it is not needed", alone(statement.span), "")]
        helps += [f"or bind the result and use it: `let result = {text}`"] if "\n" not in text else []
        title = "the result of this call is not used, and it has no effect"
        context.program.reporter.warn("W0407", title, statement.span, helps=helps)


def _run_assert(context: Context, statement: tree.Assert) -> None:
    here = context.changed(may_affect=False)
    facts = comparisons(here, statement.condition)
    entity = context.engine.evaluate(here, statement.condition)
    text = " ".join(statement.condition.span.text.split())
    message = statement.message.value if statement.message is not None else ""
    if isinstance(entity, SizeCondition) and context.region.parent is None and not measured_among(context, entity):
        if not context.generic:
            left, relation, right = entity.left, entity.relation, entity.right
            add_check(context, left, relation, right, message or f"assert {text}", statement.span)
    else:
        _append_assert(here, entity, statement, AssertAttributes(message, text))
    assume_all(context, facts)


def _assume_checked(context: Context) -> None:
    """What a call of `graph.assert_`, as printed graphs have it, says about sizes holds from then on."""
    last = context.region.block.nodes[-1:]
    if last and last[0].op == "assert":
        assume_all(context, of_value(Tensor(last[0].operands[0]), "and"))


def _append_assert(context: Context, entity: Entity, statement: tree.Assert, attributes: AssertAttributes) -> None:
    expected = condition(context, entity, statement.condition.span, "assert")
    if expected is None or expected is True:
        return
    if isinstance(expected, bool):
        expected = tensor(context, entity, statement.condition.span)
    append_assert(context, expected, attributes, statement.span)


def _run_emit(context: Context, suite: tree.Suite, statement: tree.Emit) -> None:
    loop = context.loop
    if loop is None:
        raise mistake("E0603", "`emit` stands in the body of a loop", statement.span)
    if loop.suite is not suite:
        raise mistake(
            "E0603",
            "`emit` must run exactly once in every iteration",
            statement.span,
            "this may run or not",
            helps=("let the branches yield a value, and emit that at the end of the body",),
        )
    if loop.emit_span is not None:
        raise mistake(
            "E0603",
            "`emit` must run exactly once in every iteration",
            statement.span,
            "the second `emit`",
            secondary=[(loop.emit_span, "the first")],
            helps=("emit several values at once: `emit a, b`",),
        )
    loop.emit_span = statement.span
    values = [(context.engine.evaluate(context.operand(), e), e.span) for e in statement.values]
    loop.emitted = tuple(tensor(context, entity, span) for entity, span in values)


def _finish(context: Context, final: tree.Final) -> None:
    outcome = context.outcome
    word = "return" if isinstance(final, tree.Return) else "yield"
    if outcome is None or outcome.allows != word:
        raise _misplaced(outcome.allows if outcome is not None else "", word, final)
    outcome.span = final.values[0].span.to(final.values[-1].span) if final.values else final.span
    outcome.spans = tuple(each.span for each in final.values)
    items = [_finished(context, outcome.names, value, n, len(final.values)) for n, value in enumerate(final.values)]
    outcome.value = items[0] if len(items) == 1 else TupleValue(tuple(items)) if items else NOTHING


def _finished(context: Context, names: Sequence[str], value: tree.RightHandSide, number: int, count: int) -> Entity:
    named = count == len(names) and bool(names[number])
    label = f"{context.frame.path}/{names[number]}" if named else context.label
    here = context.changed(label=label, may_affect=count == 1)
    outcome = context.outcome
    expected = outcome.expected if outcome is not None and count == 1 else None
    return snapshot(here, right_hand_side(here, value, expected), value.span)


def _misplaced(allowed: str, word: str, final: tree.Final) -> Mistake:
    if word == "return":
        title = "`return` ends a function, and cannot stand inside `if`, `for`, `loop` or `each`"
        helps = ("give a value with `yield`, and return that at the end",) if allowed == "yield" else ()
        return mistake("E0604", title, final.span, helps=helps)
    title = "`yield` gives the value of an `if` that stands behind `=`"
    helps = ("write `return`",) if allowed == "return" else ()
    return mistake("E0604", title, final.span, helps=helps)
