"""The sizes of a reduction that lost an axis and does not fit what it was made of: `x - max(x, axis = 1)`.

Assumes values of a graph in the making. Guarantees that what is offered fits: the reduction with its axes kept, as size
1, stretches to the shape that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import grouped
from dfc.elaborate.context import Context
from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Node, Value
from dfc.ops import registry
from dfc.ops.attributes import ReduceAttributes, StatisticAttributes
from dfc.ops.broadcasting import same_shape, stretches_to
from dfc.ops.lowering.forms import Elementwise
from dfc.syntax.tree import tree

Shape = tuple[Dim, ...]
MOST_NODES = 1000


def kept_axes(context: Context, operands: Sequence[Value], spans: Sequence[Span]) -> list[Help]:
    """For operands that do not fit, one of which is a reduction of what has the shape of another one."""
    if len(operands) < 2 or len(spans) != len(operands):
        return []
    widest = max((value.tensor for value in operands), key=lambda type_: type_.rank)
    for value, span in zip(operands, spans, strict=True):
        helps = kept_axes_for(context, value, widest.shape, span)
        if helps:
            return helps
    return []


def kept_axes_for(context: Context, value: Value, shape: Shape, span: Span) -> list[Help]:
    """The same for a value that should stretch to a shape."""
    reductions = list(_reductions(value))
    shapes = [_with_axes(node) for node in reductions]
    if not shapes or len(shape) != len(shapes[0]) or not all(same_shape(each, shapes[0]) for each in shapes):
        return []
    if not stretches_to(shapes[0], shape) or stretches_to(value.tensor.shape, shape):
        return []
    helps = list(_keeping(context, reductions, span))
    index = ", ".join("new" if size == ONE and number in _axes(reductions[0]) else ":"
                      for number, size in enumerate(shapes[0]))  # fmt: skip
    text = f"{grouped(span.text)}[{index}]"
    if "\n" not in text:
        words = f"or put the axis back here: `{text}`" if helps else f"to put the reduced axis back, write `{text}`"
        helps.append(replacing(words, span, text))
    return helps


def _reductions(value: Value) -> Iterator[Node]:
    """The reductions that element-wise ops made a value of; none if anything else decides its shape too."""
    reductions: dict[int, Node] = {}
    waiting, seen = [value], set[int]()
    while waiting:
        current = waiting.pop()
        node = current.node
        if current.tensor.rank == 0 or id(current) in seen:
            continue
        seen.add(id(current))
        if node is not None and len(seen) < MOST_NODES and isinstance(registry.record(node.op).lowering, Elementwise):
            waiting.extend(node.operands)
        elif node is not None and _loses_axes(node):
            reductions[id(node)] = node
        else:
            return
    yield from reductions.values()


def _axes(node: Node) -> tuple[int, ...]:
    if isinstance(node.attributes, ReduceAttributes | StatisticAttributes):
        return node.attributes.axes
    return ()


def _loses_axes(node: Node) -> bool:
    attributes = node.attributes
    return (
        isinstance(attributes, ReduceAttributes | StatisticAttributes)
        and bool(attributes.axes)
        and not attributes.keep_dims
    )


def _with_axes(node: Node) -> Shape:
    """The shape of a reduction if it kept its axes."""
    axes = _axes(node)
    return tuple(ONE if number in axes else size for number, size in enumerate(node.operands[0].tensor.shape))


def _keeping(context: Context, reductions: Sequence[Node], label_span: Span) -> Iterator[Help]:
    """`keep_dims = true` in the calls, which must be the author's own and stand in this function."""
    routine = context.frame.routine
    item: tree.Node | None = routine.item if routine is not None else context.frame.root.entry
    spans = [node.span for node in reductions]
    here = item is not None and all(
        span.file is item.span.file and item.span.start <= span.start < span.end <= item.span.end for span in spans
    )
    if not here or not all(span.text.endswith(")") and "keep_dims" not in span.text for span in spans):
        return
    first = min(spans, key=lambda span: span.start)
    words = f"keep the reduced axis, with size 1: `{_kept(first)}`"
    if len(first.text) > 60 or "\n" in first.text:
        words = "keep the reduced axis, with size 1: add `keep_dims = true`"
    if not label_span.start <= first.start < label_span.end:
        words = f"{words} in line {first.line}"
    yield editing(words, [Edit(Span(span.file, span.end - 1, span.end), ", keep_dims = true)") for span in spans])


def _kept(span: Span) -> str:
    return f"{span.text[:-1]}, keep_dims = true)"
