"""Brackets behind a tensor: `x[i] x[a:b:c] x[-1] x[.., 0] x[:, new] x[ids]`.

What is known at compile time becomes one `slice`; indices known only at run time become `gather`s, and so do known ones
on an axis whose size only the run finds out, unless they are proved to lie inside: gathers check what they read. Axes
that are dropped or added become one `reshape`. What else cannot be proved to lie inside is checked by the entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply
from dfc.elaborate.expressions.operators import as_size
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.shapes.obligations import is_open, require
from dfc.elaborate.shapes.size_inference import picked_by_mask
from dfc.elaborate.statements.inserting import conversion
from dfc.elaborate.types.convert import element_type, is_operand, tensor
from dfc.elaborate.types.entities import Entity, ListValue, Tensor, Unknown, VariableValue
from dfc.elaborate.types.types import dimension
from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, SliceAttributes, TypeAttributes
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


@dataclass(frozen=True, slots=True)
class Point:
    """A position known at compile time; the axis is dropped."""

    start: Dim


@dataclass(frozen=True, slots=True)
class Range:
    start: Dim
    size: Dim
    step: int


@dataclass(frozen=True, slots=True)
class Picked:
    """Positions known only at run time: a scalar drops the axis, a tensor of ids replaces it."""

    ids: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Added:
    """`new`"""


Selector = Point | Range | Picked | Added
NO_VALUES = (tree.Slice, tree.ShapePack, tree.UnknownDimension, tree.EllipsisIndex, tree.NewAxis)


def index(context: Context, operand: Entity, node: tree.Index) -> Value:
    x = tensor(context, operand, node.operand.span)
    alone = _alone(context, node)
    mask = _mask(context, alone, node.span)
    if mask is not None:
        return picked_by_mask(
            context, x, mask, OperationSpans("[]", node.span, (node.operand.span, node.indices[0].span))
        )
    selectors = select(context, x.tensor, node, alone)
    if not any(isinstance(s, Picked) for s in selectors):
        return _reshaped(context, _sliced(context, x, selectors, node.span), selectors, node.span)
    x = _sliced(context, x, selectors, node.span)
    for axis, picked in reversed(_axes(selectors)):
        if isinstance(picked, Picked):
            spans = OperationSpans("[]", node.span, (node.operand.span, picked.span))
            x = apply(context, "gather", [x, picked.ids], spans, AxisAttributes(axis))
    return _reshaped(context, x, selectors, node.span)


def _alone(context: Context, node: tree.Index) -> Entity | None:
    """What stands alone in the brackets, and may be a mask."""
    item = node.indices[0] if len(node.indices) == 1 else None
    return None if item is None or isinstance(item, NO_VALUES) else context.engine.evaluate(context.operand(), item)


def _mask(context: Context, entity: Entity | None, span: Span) -> Value | None:
    """The mask in `x[mask]`: bools of one axis or more."""
    mask = tensor(context, entity, span) if isinstance(entity, Tensor | VariableValue) else None
    return mask if mask is not None and mask.tensor.dtype.is_bool and mask.tensor.rank else None


def _mask_within(item: tree.Expression, mask: Value) -> Exception:
    if not mask.tensor.rank:
        return mistake("E0316", "an index is a whole number", item.span, str(mask.tensor))
    helps = (f"pick the positions first: `nonzero({item.span.text})`",) if "\n" not in item.span.text else ()
    return mistake("E0316", "a mask stands alone in its brackets", item.span, str(mask.tensor), helps=helps)


# -------------------------------------------------------------- selectors --


def select(context: Context, type_: TensorType, node: tree.Index, alone: Entity | None = None) -> list[Selector]:
    """One selector for each axis of the operand, and those for new axes, in order. `alone` is what the only item
    stands for, if that is known already."""
    items = _without_ellipsis(type_, node)
    selectors: list[Selector] = []
    axis = 0
    for item in items:
        if isinstance(item, tree.NewAxis):
            selectors.append(Added())
            continue
        entity = alone if node.indices and item is node.indices[0] else None
        selectors.append(_selector(context, item, type_.shape[axis], axis, entity))
        axis += 1
    if sum(isinstance(s, Picked) and s.ids.tensor.rank > 0 for s in selectors) > 1:
        raise unsupported("several lists of indices in one pair of brackets are", node.span)
    return selectors


def _without_ellipsis(type_: TensorType, node: tree.Index) -> list[tree.IndexItem]:
    """The items with `..`, and axes that are not mentioned, written out as `:`."""
    items = list(node.indices)
    dots = [i for i, item in enumerate(items) if isinstance(item, tree.EllipsisIndex)]
    used = sum(not isinstance(item, tree.NewAxis | tree.EllipsisIndex) for item in items)
    if len(dots) > 1:
        raise mistake("E0316", "only one `..` can stand in a pair of brackets", items[dots[1]].span)
    if used > type_.rank:
        if type_.rank == 0:
            raise mistake(
                "E0313", "a single number cannot be indexed", node.span, f"`{node.operand.span.text}` is {type_}"
            )
        raise mistake(
            "E0313",
            f"{counted(used, 'index')} for {counted(type_.rank, 'axis')}",
            node.span,
            f"`{node.operand.span.text}` is {type_}",
        )
    rest: list[tree.IndexItem] = [tree.Slice(None, None, None, span=node.span)] * (type_.rank - used)
    if dots:
        return [*items[: dots[0]], *rest, *items[dots[0] + 1 :]]
    return [*items, *rest]


def _selector(context: Context, item: tree.IndexItem, size: Dim, axis: int, ready: Entity | None) -> Selector:
    match item:
        case tree.Slice():
            return _range(context, item, size, axis)
        case tree.ShapePack() | tree.UnknownDimension() | tree.EllipsisIndex() | tree.NewAxis():
            raise mistake("E0316", "this cannot stand in the brackets of a tensor", item.span)
        case _:
            pass
    entity = ready if ready is not None else context.engine.evaluate(context.operand(), item)
    known = as_size(entity)
    if known is not None:
        return _position(context, known, size, axis, item.span)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity) or (element_type(entity) is None and not isinstance(entity, ListValue)):
        raise mistake("E0316", "an index is a whole number", item.span)
    ids = tensor(context, entity, item.span)
    if ids.tensor.dtype.is_bool:
        raise _mask_within(item, ids)
    if not ids.tensor.dtype.is_integer:
        text = conversion(item.span, "i64")
        helps = (replacing(f"write `{text}`", item.span, text),) if "\n" not in text else ()
        raise mistake("E0316", "an index is a whole number", item.span, str(ids.tensor), helps=helps)
    return Picked(ids, item.span)


def _position(context: Context, position: Dim, size: Dim, axis: int, span: Span) -> Point | Picked:
    negative = position.constant is not None and position.constant < 0
    start = size + position if negative else position
    reason = f"index {position} of an axis of size {size} must be inside"
    low = require(context, start, ">=", 0, reason, span)
    if low is not False and is_open(context, size, ">", start):
        return Picked(context.at(span).size(start), span)
    high = require(context, size, ">", start, reason, span) if low is not False else None
    if low is False or high is False:
        raise mistake(
            "E0317",
            f"index {position} lies outside axis {axis}",
            span,
            f"the axis has size {size}",
            notes=(f"indices go from 0 to {size - 1}, or from -1 back to -{_operand(size)}",) if size != ZERO else (),
        )
    return Point(start)


def _operand(size: Dim) -> str:
    return str(size) if size.constant is not None or size.symbol is not None else f"({size})"


def _range(context: Context, item: tree.Slice, size: Dim, axis: int) -> Selector:
    step = _step(context, item)
    moving = _moving(context, item, step)
    if moving is not None:
        return moving
    low, high = (ZERO, size) if step > 0 else (size - 1, dim(-1))
    start = _bound(context, item.start, size, low)
    stop = _bound(context, item.stop, size, high)
    extent = stop - start if step > 0 else start - stop
    span = item.span
    reason = f"`{item.span.text}` of an axis of size {size} must be inside"
    bounds = [(extent, dim(0))]
    if step > 0:
        bounds += [(start, dim(0)), (size, stop)]
    else:
        bounds += [(stop, dim(-1)), (size - 1, start)] if item.start is not None or item.stop is not None else []
        bounds = bounds if item.start is not None or item.stop is not None else []
    count = extent if abs(step) == 1 else ceil_divide(extent, dim(abs(step)))
    late = [pair for pair in bounds[1:] if pair[0] != start and is_open(context, pair[0], ">=", pair[1])]
    for left, right in bounds:
        if (left, right) in late:
            continue
        if require(context, left, ">=", right, reason, span) is False:
            raise mistake("E0317", f"`{item.span.text}` goes beyond axis {axis}", span, f"the axis has size {size}")
    count = context.facts.canonical(count)
    return _steps(context, start, count, step, span) if late else Range(start, count, step)


def _steps(context: Context, start: Dim, count: Dim, step: int, span: Span) -> Picked:
    """A range of positions as numbers, each of which is checked when it is used."""
    spans = OperationSpans("[]", span)
    indices = apply(context, "iota", [], spans, TypeAttributes(TensorType(I64, (count,))))
    if step != 1:
        indices = apply(context, "mul", [indices, context.at(span).constant(step, I64)], spans)
    if start != ZERO:
        indices = apply(context, "add", [indices, context.at(span).size(start)], spans)
    return Picked(indices, span)


def _step(context: Context, item: tree.Slice) -> int:
    if item.step is None:
        return 1
    entity = context.engine.evaluate(context.operand(), item.step)
    size = as_size(entity)
    if size is None or size.constant is None:
        if isinstance(entity, Unknown) or (size is not None and context.generic):
            raise Abandoned
        raise mistake("E0309", "the step of a slice must be a constant", item.step.span)
    if size.constant == 0:
        raise mistake("E0317", "the step of a slice cannot be 0", item.step.span)
    return size.constant


def _bound(context: Context, written: tree.Expression | None, size: Dim, default: Dim) -> Dim:
    if written is None:
        return default
    entity = context.engine.evaluate(context.operand(), written)
    known = as_size(entity)
    if known is None:
        if isinstance(entity, Unknown):
            raise Abandoned
        raise mistake(
            "E0309",
            "the size of a slice must be known when the program is compiled",
            written.span,
            "only known when the program runs",
            helps=("a window that moves is written `x[k:k + 4]`: its size is then 4",),
        )
    negative = known.constant is not None and known.constant < 0
    return size + known if negative else context.facts.canonical(known)


def _moving(context: Context, item: tree.Slice, step: int) -> Picked | None:
    """`x[k:k + 4]` with `k` known only at run time: `x[k + iota(4)]`."""
    start, stop = item.start, item.stop
    if start is None or not isinstance(stop, tree.Binary) or stop.operator != "+" or stop.left != start:
        return None
    entity = context.engine.evaluate(context.operand(), start)
    if as_size(entity) is not None or not isinstance(entity, Tensor):
        return None
    if step != 1:
        raise unsupported("a moving window with a step is", item.span)
    size = dimension(context, stop.right)
    first = tensor(context, entity, start.span)
    if first.tensor.shape or not first.tensor.dtype.is_integer:
        raise mistake("E0316", "an index is a whole number", start.span, str(first.tensor))
    spans = OperationSpans("[]", item.span)
    steps = apply(context, "iota", [], spans, TypeAttributes(TensorType(first.tensor.dtype, (size,))))
    return Picked(apply(context, "add", [first, steps], spans), item.span)


# ------------------------------------------------------------------ nodes --


def _axes(selectors: Sequence[Selector]) -> list[tuple[int, Selector]]:
    """The selectors that belong to an axis, with its number."""
    return list(enumerate(s for s in selectors if not isinstance(s, Added)))


def _sliced(context: Context, x: Value, selectors: Sequence[Selector], span: Span) -> Value:
    shape = x.tensor.shape
    starts, sizes, steps = [ZERO] * len(shape), list(shape), [1] * len(shape)
    for axis, selector in _axes(selectors):
        if isinstance(selector, Point):
            starts[axis], sizes[axis] = selector.start, ONE
        elif isinstance(selector, Range):
            starts[axis], sizes[axis], steps[axis] = selector.start, selector.size, selector.step
    if tuple(sizes) == shape and all(start == ZERO for start in starts) and all(step == 1 for step in steps):
        return x
    attributes = SliceAttributes(tuple(starts), tuple(sizes), tuple(steps))
    return apply(context, "slice", [x], OperationSpans("[]", span), attributes)


def _reshaped(context: Context, x: Value, selectors: Sequence[Selector], span: Span) -> Value:
    """Drops the axes of points and adds new ones; `x` has all other axes in order."""
    shape: list[Dim] = []
    axis = 0
    for selector in selectors:
        match selector:
            case Added():
                shape.append(ONE)
            case Point():
                axis += 1
            case Range():
                shape.append(x.tensor.shape[axis])
                axis += 1
            case Picked(ids):
                shape += ids.tensor.shape
                axis += ids.tensor.rank
    return context.at(span).reshape(x, shape)
