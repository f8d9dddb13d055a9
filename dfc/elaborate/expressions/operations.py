"""Appending nodes on behalf of the author: what an op refuses becomes a message about the author's own text."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import BindingRole
from dfc.elaborate.shapes.origins import origins, remedies
from dfc.elaborate.shapes.reduced import kept_axes
from dfc.elaborate.statements import inserting
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim
from dfc.ir.facts import Facts
from dfc.ir.graph import Value
from dfc.ops.broadcasting import ONE_NAME, dims_equal
from dfc.ops.builder import Builder
from dfc.ops.record import EXPRESSION, OPERATOR, OpError
from dfc.syntax.tree import tree

Result = TypeVar("Result")
Declared = tree.FunctionItem | tree.ProcedureItem | tree.EntryItem
_VERBS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
MEASURED_SIZES = (
    "every call that finds out a size has one of its own: name them, `let [N] ...`, and `assert N == M` above"
)
_QUOTED = re.compile(r"`(\w+)`")
_TYPED = re.compile(r"`([^`]+)`")


@contextmanager
def assuming(facts: Facts) -> Generator[None]:
    """Shape rules compare sizes with the facts that hold here."""

    def equal(a: Dim, b: Dim) -> bool:
        return facts.equal(a, b) is True

    token = dims_equal.set(equal)
    try:
        yield
    finally:
        dims_equal.reset(token)


def operate(
    context: Context, spans: OperationSpans, build: Callable[[Builder], Result], operands: Sequence[Value] = ()
) -> Result:
    """Runs `build` at the end of the current block; an `OpError` becomes a mistake of the author. `operands` are told
    where their sizes come from."""
    builder = context.at(spans.span)
    try:
        if not context.facts:  # the front end as a whole runs under no facts
            return build(builder)
        with assuming(context.facts):
            return build(builder)
    except OpError as problem:
        if problem.code == "E0309" and context.generic:  # a size that has a number in every call, perhaps
            raise Abandoned from None
        raise explained(context, problem, spans, operands) from None


def apply(
    context: Context, op: str, operands: Sequence[Value], spans: OperationSpans, attributes: Attributes | None = None
) -> Value:
    return operate(context, spans, lambda builder: builder.node(op, operands, attributes).result, operands)


def explained(context: Context, problem: OpError, spans: OperationSpans, operands: Sequence[Value] = ()) -> Mistake:
    filled = problem.filled(spans.op, [span.text for span in spans.operands])
    span = spans.span
    if problem.blame == OPERATOR:
        span = spans.operator
    elif isinstance(problem.blame, int) and problem.blame < len(spans.operands):
        span = spans.operands[problem.blame]
    elif isinstance(problem.blame, str):
        span = spans.arguments.get(problem.blame, span)
    secondary = [
        (spans.operands[number], words)
        for number, words in filled.operand_labels.items()
        if number < len(spans.operands) and spans.operands[number] != span
    ]
    helps = [_typed(spans, text, filled.replaces.get(number)) for number, text in enumerate(filled.helps)]
    if problem.code == "E0302":
        helps = _begun_otherwise(context, spans, operands) or helps
    label = filled.label
    if problem.code == "E0305":
        label = label.replace(" against ", f" {_VERBS.get(spans.op, 'against')} ")
        introduced = list(_introductions(context, filled.title))
        secondary += introduced or origins(context, operands)
        helps = (
            _kept(context, spans, operands)
            or list(remedies(context, operands))
            or [_promised(context, filled.title, help_) for help_ in helps]
        )
        helps = [MEASURED_SIZES] if _is_measured(context, filled.title) else helps
    return mistake(problem.code, filled.title, span, label, secondary=secondary, notes=filled.notes, helps=helps)


def _begun_otherwise(context: Context, spans: OperationSpans, operands: Sequence[Value]) -> list[Help]:
    """For a loop variable that begins as a number without a type, and whose next value is of another type."""
    if len(operands) != 2 or len(spans.operands) != 2 or context.loop is None:
        return []
    for span, own, other in zip(spans.operands, operands, reversed(operands), strict=True):
        binding = context.scope.find(span.text)
        dtype = other.tensor.dtype
        if binding is None or binding.role is not BindingRole.LOOP or dtype.is_bool or dtype == own.tensor.dtype:
            continue
        if not any(_gives_next(each, binding.name, spans.span) for each in tree.walk(context.loop.suite)):
            continue
        first = inserting.started_as(binding.name, binding.span, str(dtype))
        if first is not None:
            return [first]
    return []


def _gives_next(node: tree.Node, name: str, inside: Span) -> bool:
    """Whether a statement gives `name` its next value, by an expression that a span is a part of."""
    if not isinstance(node, tree.Rebind) or all(each.span.text != name for each in node.targets):
        return False
    return node.value.span.start <= inside.start and inside.end <= node.value.span.end


def _kept(context: Context, spans: OperationSpans, operands: Sequence[Value]) -> list[Help]:
    with assuming(context.facts):
        return kept_axes(context, operands, spans.operands)


def _typed(spans: OperationSpans, text: str, replaced: int | str | None) -> Help:
    """A help of an op; with the edit, if it says what its last quoted text stands in place of."""
    if replaced is None:
        return text
    span: Span | None = spans.span
    if isinstance(replaced, int):
        span = spans.operands[replaced] if replaced < len(spans.operands) else None
    elif replaced != EXPRESSION:
        span = spans.arguments.get(replaced)
    written = _TYPED.findall(text)
    if span is None or not written:
        return text
    fitting = written[-1] if replaced == EXPRESSION else inserting.operand(written[-1], span)
    return replacing(text.replace(f"`{written[-1]}`", f"`{fitting}`"), span, fitting)


def _introductions(context: Context, title: str) -> Iterator[tuple[Span, str]]:
    """Where the dimensions named in a title were declared."""
    for name in _QUOTED.findall(title):
        binding = context.scope.find(name)
        if binding is not None and binding.role is BindingRole.DIMENSION and not binding.span.is_nowhere:
            yield binding.span, "introduced here"


def _is_measured(context: Context, title: str) -> bool:
    """Whether a title names a size that only the run finds out."""
    measured = {str(symbol) for symbol in context.region.sizes.most}
    return bool(measured) and not measured.isdisjoint(_QUOTED.findall(title))


def _promised(context: Context, title: str, help_: Help) -> Help:
    """Spells out "use one name for both", and where a `where` goes, with the author's own declaration."""
    item = context.frame.routine.item if context.frame.routine is not None else context.frame.root.entry
    names = _QUOTED.findall(title)
    if item is None or len(names) != 2 or not isinstance(help_, str):
        return help_
    own = [each.name.text for each in item.generics]
    if not set(names) <= set(own):
        return help_
    if help_ == ONE_NAME:
        return _one_name(context, item, names, help_)
    return replacing(help_, _behind_signature(item), _where(item, *names)) if "`where " in help_ else help_


def _one_name(context: Context, item: Declared, names: Sequence[str], text: str) -> Help:
    if not item.parameters or len(item.generics) < 2:
        return text
    parameters = ", ".join(parameter.span.text for parameter in item.parameters)
    kept, dropped = names
    generics = [generic.span.text for generic in item.generics if generic.span.text != dropped]
    renamed = re.sub(rf"\b{dropped}\b", kept, parameters)
    signature = f"{context.frame.kind} {item.name.text}[{', '.join(generics)}]({renamed})"
    words = f"if they are always equal, use one name: `{signature}`" if len(signature) < 80 else text
    return editing(words, _renamed(item, kept, dropped))


def _renamed(item: Declared, kept: str, dropped: str) -> Iterator[Edit]:
    """One dimension of a declaration under the name of another one, wherever it stands."""
    for number, generic in enumerate(item.generics):
        if generic.name.text == dropped:
            near = item.generics[number - 1].span if number else item.generics[1].span
            first, last = (near.end, generic.span.end) if number else (generic.span.start, near.start)
            yield Edit(Span(generic.span.file, first, last), "")
    for node in tree.walk(item):
        if isinstance(node, tree.Name) and node.text == dropped:
            yield Edit(node.span, kept)


def _behind_signature(item: Declared) -> Span:
    """The place where a `where` stands, or the end of the one that stands there."""
    if item.where:
        return item.where[-1].span.after()
    if item.result is not None:
        return item.result.span.after()
    start = item.parameters[-1].span.end if item.parameters else item.generics[-1].span.end
    return Span(item.span.file, *([item.span.file.text.index(")", start) + 1] * 2))


def _where(item: Declared, left: str, right: str) -> str:
    return f", {left} == {right}" if item.where else f" where {left} == {right}"
