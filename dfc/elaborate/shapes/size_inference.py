"""Sizes that are found out while an entry runs: `range`, `nonzero`, `unique`, masks in brackets, `let [N] ..`.

Each call makes a symbol of its own, which `dfc.ir.measured` describes; what is known of it is that it is at most as
large as the tensor it was found in. Conditions on such sizes that nothing proves are checked where they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply, operate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.convert import is_operand, not_an_operand, tensor
from dfc.elaborate.types.declared import DeclaredType, Signature, TupleType
from dfc.elaborate.types.entities import Entity, Size, Tensor, TupleValue, Unknown
from dfc.elaborate.types.generics import Matching
from dfc.elaborate.types.types import resolve_type, size_of
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import F32, I64
from dfc.ir.graph import Value
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, SizedAttributes
from dfc.ops.broadcasting import same_shape
from dfc.ops.indexing.nonzero import count_set
from dfc.syntax.tree import tree

Arguments = Mapping[str, Argument]
UNNAMED = "N"
RANGE = "range(count: i64, const most: int)"


def new_size(context: Context, most: Dim) -> Dim:
    """A size that no other is called like: as the `let [N]` around it wants, if it wants something."""
    name = context.fresh.pop(0) if context.fresh else UNNAMED
    sizes = context.region.sizes
    if context.generic:
        symbol = Symbol(name, context.program.fresh_number())
    else:
        symbol = Symbol(sizes.unused(name, lambda each: context.program.main.find(each) is not None))
    sizes.most[symbol] = most
    context.region.measured.add(symbol)
    return dim(symbol)


def measure(context: Context, count: Value, most: Dim, spans: OperationSpans) -> Value:
    """0, 1, 2, .. up to below a number that only the run knows: a tensor with one axis of a new size."""
    size = new_size(context, most)
    return apply(context, "range", [count], spans, MeasuredAttributes(size, most))


def make_range(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`range(n, B)`"""
    del expected
    argument = arguments["count"]
    count = _operand(context, argument)
    if count.tensor.dtype.is_integer and not count.tensor.shape:
        count = context.at(span).cast(count, I64)
    most = size_of(context, value_of(context, arguments["most"]), arguments["most"].span)
    spans = OperationSpans("range", span, (argument.span,), arguments={"most": arguments["most"].span})
    return Tensor(measure(context, count, most, spans))


def make_nonzero(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`nonzero(mask)`"""
    del expected
    x = _operand(context, arguments["x"])
    positions = set_positions(context, x, OperationSpans("nonzero", span, (arguments["x"].span,)))
    return Tensor(positions[0]) if len(positions) == 1 else TupleValue(tuple(map(Tensor, positions)))


def set_positions(context: Context, x: Value, spans: OperationSpans) -> Sequence[Value]:
    """The positions of the elements that are set: one tensor an axis."""
    attributes = SizedAttributes(dim(0))
    operate(context, spans, lambda b: b.infer("nonzero", [x], attributes))
    count = operate(context, spans, lambda b: count_set(b, x))
    (size,) = measure(context, count, x.tensor.elements, spans).tensor.shape
    return operate(context, spans, lambda b: b.node("nonzero", [x], SizedAttributes(size)).results)


def make_unique(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """`unique(x)`"""
    del expected
    x = _operand(context, arguments["x"])
    spans = OperationSpans("unique", span, (arguments["x"].span,))
    count = apply(context, "count_distinct", [x], spans)
    (size,) = measure(context, count, x.tensor.elements, spans).tensor.shape
    node = operate(context, spans, lambda b: b.node("unique", [x], SizedAttributes(size)))
    return TupleValue(tuple(map(Tensor, node.results)), ("values", "inverse", "counts"))


def picked_by_mask(context: Context, x: Value, mask: Value, spans: OperationSpans) -> Value:
    """`x[mask]`: the elements (or rows) where the mask is true; its axes become one."""
    rank, elements = mask.tensor.rank, mask.tensor.elements
    own = x.tensor.shape[:rank]
    if not operate(context, spans, lambda _: same_shape(own, mask.tensor.shape)):
        shown = f"{mask.tensor} against {x.tensor}"
        notes = ("a mask has the first axes of what it picks from, with the same sizes",)
        raise mistake("E0305", "the mask does not fit what it picks from", spans.operands[1], shown, notes=notes)
    flat = operate(context, spans, lambda b: b.reshape(mask, (elements,)))
    (ids,) = set_positions(context, flat, spans)
    lined_up = operate(context, spans, lambda b: b.reshape(x, (elements, *x.tensor.shape[rank:])))
    return apply(context, "gather", [lined_up, ids], spans, AxisAttributes(0))


def _operand(context: Context, argument: Argument) -> Value:
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        raise not_an_operand(entity, argument.span)
    return tensor(context, entity, argument.span)


# ------------------------------------------------------------------- names --


def name_sizes(context: Context, statement: tree.Let, parts: Sequence[Entity]) -> None:
    """`let [N] x: f32[N] = ..`: the names stand for what is found at their place in the types."""
    symbols = {name.text: context.program.fresh_symbol(name.text) for name in statement.fresh}
    matching = Matching(context, Signature((), (), (), None, symbols))
    scope = Scope(context.scope)
    for name in statement.fresh:
        scope.bind(name.text, Size(symbols[name.text]), name.span, BindingRole.DIMENSION)
    typing = context.changed(scope=scope, unknown_sizes=True)
    for binder, part in zip(statement.binders, parts, strict=True):
        if binder.type is not None:
            _match(matching, resolve_type(typing, binder.type), part)
    matching.check()
    for name in statement.fresh:
        symbol = symbols[name.text].symbol
        size = matching.sizes.get(symbol) if symbol is not None else None
        if size is None:
            raise _names_nothing(statement, name, parts)
        context.scope.bind(name.text, Size(size), name.span, BindingRole.DIMENSION)


def _match(matching: Matching, declared: DeclaredType, part: Entity) -> None:
    match declared, part:
        case TensorType(), Tensor():
            matching.match_shape(declared.shape, part.type.shape)
        case TupleType(fields), TupleValue(items):
            for inner, item in zip(fields, items, strict=False):
                _match(matching, inner, item)
        case _, Unknown():
            raise Abandoned
        case _:
            pass


def _names_nothing(statement: tree.Let, name: tree.Identifier, parts: Sequence[Entity]) -> Exception:
    pairs = zip(statement.binders, parts, strict=True)
    typed = [(b.name.text, p.type) for b, p in pairs if isinstance(p, Tensor) and p.type.rank]
    binder, type_ = typed[0] if typed else ("x", TensorType(F32, (dim(0),)))
    shown = ", ".join([name.text, *map(str, type_.shape[1:])])
    return mistake(
        "E0321",
        f"`{name.text}` names no size",
        name.span,
        "no axis of this size in the types behind it",
        helps=(f"give the axis that it names in a type: `let [{name.text}] {binder}: {type_.dtype}[{shown}] = ...`",),
    )


# ----------------------------------------------------------------- leaving --


def refuse_leaving(region: Region, value: Value, span: Span) -> None:
    """E0319 for a value that leaves a branch or a loop with an axis whose size was found out inside."""
    inside = sorted(region.measured & symbols_of(value.type), key=str)
    if inside:
        raise mistake(
            "E0319",
            f"the size `{inside[0]}` is known only inside this block",
            span,
            f"{value.type} cannot leave it",
            notes=("a size that is found out in a branch or in an iteration of a loop has no value outside",),
            helps=("let something leave whose size does not depend on it, such as a sum", "or find it out above"),
        )
