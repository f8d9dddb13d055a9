"""Expressions: from syntax to entities, with nodes appended to the current block on the way.

Chains that lean left (`a + b + c + ...`, `x |> f |> g`) are walked without recursion.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import arguments_of
from dfc.elaborate.expressions.indexing import index
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.expressions.operators import binary, invert, negate
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.names.names import look_up, member
from dfc.elaborate.types.convert import check_fits, element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    AliasValue,
    BlockClass,
    Constant,
    ElementType,
    Entity,
    ListValue,
    Opaque,
    Routine,
    SpecialType,
    Tensor,
    TupleValue,
    TypeValue,
    Unknown,
    Untyped,
)
from dfc.elaborate.types.types import CONST_KINDS, dimension, dimensions, find_type, only_for_constants, resolve_type
from dfc.ir.dims import Dim
from dfc.ir.dtypes import BOOL, DType, DTypeVariable
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import CastAttributes
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted

MOST_LEAVES = 500_000
Many = TypeVar("Many", TupleValue, ListValue)


def evaluate(context: Context, expression: tree.Expression, expected: Expected = None) -> Entity:
    """What an expression stands for; nodes it needs are appended to the current block."""
    chain = tree.spine(expression)
    contexts = [context]
    for outer in chain[:-1]:
        here = contexts[-1]
        contexts.append(here if isinstance(outer, tree.Pipe) else here.operand())
    entity = _atom(contexts[-1], chain[-1], expected if len(chain) == 1 else None)
    for position in range(len(chain) - 2, -1, -1):
        entity = _step(contexts[position], chain[position], entity, expected if position == 0 else None)
    return entity


# ------------------------------------------------------------------ atoms --


def _atom(context: Context, expression: tree.Expression, expected: Expected) -> Entity:
    match expression:
        case tree.Name():
            return look_up(context, expression.text, expression.span).value
        case tree.IntegerLiteral() | tree.FloatLiteral() | tree.StringLiteral() | tree.BooleanLiteral():
            return Constant(expression.value)
        case tree.Group():
            return evaluate(context, expression.inner, expected)
        case tree.Tuple():
            return _bounded(TupleValue(tuple(evaluate(context.operand(), e) for e in expression.elements)), expression)
        case tree.Record():
            return _record(context, expression)
        case tree.ListLiteral():
            return _bounded(ListValue(tuple(evaluate(context.operand(), e) for e in expression.elements)), expression)
        case tree.Conditional():
            return context.engine.choose(context.operand(), expression, expected)
        case tree.LogicalNot():
            operand = evaluate(context.operand(), expression.operand)
            return invert(context, operand, OperationSpans("not", expression.span, [expression.operand.span]))
        case tree.Negate():
            operand = evaluate(context.operand(), expression.operand)
            sign = Span(expression.span.file, expression.span.start, expression.span.start + 1)
            return negate(context, operand, OperationSpans("-", expression.span, [expression.operand.span], sign))
        case _:
            raise AssertionError(expression)


def _record(context: Context, expression: tree.Record) -> TupleValue:
    names: list[str] = []
    for field in expression.fields:
        if field.name.text in names:
            raise mistake("E0205", f"the field `{field.name.text}` is given twice", field.name.span)
        names.append(field.name.text)
    items = tuple(evaluate(context.operand(), field.value) for field in expression.fields)
    return _bounded(TupleValue(items, tuple(names)), expression)


def _bounded(entity: Many, expression: tree.Expression) -> Many:
    """Lists of lists of lists hold more than can be written down, or looked at."""
    if entity.leaves > MOST_LEAVES:
        title = f"this holds more than {MOST_LEAVES} values"
        raise mistake("E1002", title, expression.span, f"{entity.leaves:,} values in all")
    return entity


# ------------------------------------------------------------------ steps --


def _step(context: Context, node: tree.Expression, left: Entity, expected: Expected) -> Entity:
    """One link of a chain, when what stands left of it is known."""
    match node:
        case tree.Binary() | tree.Comparison():
            right = evaluate(context.operand(), node.right)
            spans = OperationSpans(node.operator, node.span, (node.left.span, node.right.span), node.operator_span)
            return binary(context, node.operator, left, right, spans)
        case tree.LogicalAnd() | tree.LogicalOr():
            return _logical(context, node, left)
        case tree.Cast():
            return cast(context, left, node)
        case tree.Member():
            return member(context, left, node.name, node)
        case tree.Index():
            return _index(context, node, left)
        case tree.Call():
            return context.engine.call(context, left, arguments_of(node), node.span, expected)
        case tree.Pipe():
            return _pipe(context, node, left, expected)
        case _:
            raise AssertionError(node)


def _logical(context: Context, node: tree.LogicalAnd | tree.LogicalOr, left: Entity) -> Entity:
    op = "and" if isinstance(node, tree.LogicalAnd) else "or"
    if left == Constant(op == "or"):
        return left
    right = evaluate(context.operand(), node.right)
    spans = OperationSpans(op, node.span, (node.left.span, node.right.span), node.operator_span)
    for entity, operand in ((left, node.left), (right, node.right)):
        dtype = element_type(entity)
        if is_operand(entity) and dtype != BOOL:
            shown = describe(entity)
            text = f"{operand.span.text} != 0"
            helps = (replacing(f"write `{text}`", operand.span, text),) if dtype is not None else ()
            raise mistake("E0302", f"`{op}` needs two bools", operand.span, f"this is {shown}", helps=helps)
    if isinstance(left, Constant):
        return right
    if isinstance(right, Constant):
        return right if right.value == (op == "or") else left
    return binary(context, op, left, right, spans)


def _pipe(context: Context, node: tree.Pipe, left: Entity, expected: Expected) -> Entity:
    stage = node.stage
    piped = Argument("", node.value.span, node.value.span, None, left)
    if isinstance(stage, tree.Call):
        function = evaluate(context.operand(), stage.function)
        return context.engine.call(context, function, [piped, *arguments_of(stage)], node.span, expected)
    function = evaluate(context.operand(), stage)
    return context.engine.call(context, function, [piped], node.span, expected)


# ------------------------------------------------------------ conversions --


def cast(context: Context, operand: Entity, node: tree.Cast) -> Entity:
    """`operand as T`"""
    target = find_type(context, node.target)
    if isinstance(target, Unknown) or isinstance(operand, Unknown):
        raise Abandoned
    if isinstance(target, AliasValue):
        resolved = resolve_type(context, tree.TensorType(node.target, span=node.target.span))
        target = ElementType(resolved.dtype) if isinstance(resolved, TensorType) and not resolved.shape else target
    if isinstance(target, SpecialType) and target.name in CONST_KINDS:
        raise only_for_constants(target.name, node.target.span)
    if not isinstance(target, ElementType):
        raise mistake("E0316", f"`as` needs an element type, and `{node.target.text}` is none", node.target.span)
    dtype = target.dtype
    match operand:
        case Constant(bool() | int() | float() as value) if isinstance(dtype, DType):
            return Tensor(_cast_constant(context, value, dtype, node))
        case ListValue():
            return Tensor(tensor(context, operand, node.operand.span, dtype))
        case Untyped() if dtype.is_float:
            return Tensor(tensor(context, operand, node.operand.span, dtype))
        case Opaque(kind) if kind != "str":
            return Tensor(Value(TensorType(dtype), "constant"))
        case _:
            pass
    if not is_operand(operand):
        raise not_an_operand(operand, node.operand.span)
    value = tensor(context, operand, node.operand.span)
    if value.tensor.dtype == dtype:
        return Tensor(value)
    return Tensor(
        apply(context, "cast", [value], OperationSpans("as", node.span, [node.operand.span]), CastAttributes(dtype))
    )


def _cast_constant(context: Context, value: bool | int | float, dtype: DType, node: tree.Cast) -> Value:
    if dtype == BOOL:
        return context.at(node.span).constant(value != 0, BOOL)
    if isinstance(value, float) and dtype.is_integer:
        value = int(value)
    number = int(value) if isinstance(value, bool) else value
    check_fits(number, dtype, node.operand.span)
    return context.at(node.span).constant(number, dtype)


# --------------------------------------------------------------- brackets --


def _index(context: Context, node: tree.Index, left: Entity) -> Entity:
    """`left[...]`: an element type, a block or function with explicit dimensions, a list, or a tensor."""
    match left:
        case ElementType(dtype):
            return TypeValue(TensorType(dtype, dimensions(context, _as_dimensions(node))))
        case SpecialType() | AliasValue():
            path = tree.Path((tree.Identifier(node.operand.span.text, span=node.operand.span),), span=node.operand.span)
            written = tree.TensorType(path, (), _as_dimensions(node), span=node.span)
            resolved = resolve_type(context, written)
            if isinstance(resolved, TensorType):
                return TypeValue(resolved)
            raise mistake("E0316", "a tensor type is needed here", node.span)
        case Routine() | BlockClass():
            return replace(left, explicit=tuple(_explicit(context, item) for item in node.indices))
        case ListValue(items) | TupleValue(items):
            return _pick(context, node, items)
        case Unknown():
            raise Abandoned
        case _ if is_operand(left):
            return Tensor(index(context, left, node))
        case _:
            raise not_an_operand(left, node.operand.span)


def _as_dimensions(node: tree.Index) -> tuple[tree.Dimension, ...]:
    dimensions: list[tree.Dimension] = []
    for item in node.indices:
        if isinstance(item, tree.Slice | tree.EllipsisIndex | tree.NewAxis):
            raise mistake("E0316", "a type lists dimensions", item.span)
        dimensions.append(item)
    return tuple(dimensions)


def _explicit(context: Context, item: tree.IndexItem) -> Dim | DType | DTypeVariable:
    if isinstance(item, tree.Slice | tree.EllipsisIndex | tree.NewAxis | tree.ShapePack):
        raise mistake("E0316", "a dimension or an element type is needed here", item.span)
    if not isinstance(item, tree.UnknownDimension):
        entity = evaluate(context.operand(), item)
        if isinstance(entity, ElementType):
            return entity.dtype
    return dimension(context, item)


def _pick(context: Context, node: tree.Index, items: tuple[Entity, ...]) -> Entity:
    item = node.indices[0] if len(node.indices) == 1 else None
    if item is None or isinstance(item, tree.Slice | tree.EllipsisIndex | tree.NewAxis | tree.ShapePack):
        raise mistake("E0316", "a list is indexed with one whole number", node.span)
    size = dimension(context, item)
    if size.constant is None:
        raise mistake("E0309", "the index of a list must be a constant", item.span)
    if not 0 <= size.constant < len(items):
        raise mistake("E0317", f"the list has {counted(len(items), 'element')}, so there is no [{size}]", item.span)
    return items[size.constant]
