"""Views of the nodes that have regions: what each operand, parameter, output and result of them stands for.

    for: start, stop, carried.., tokens.. -> carried.., stacked.., tokens..
      body: index, carried.., tokens..    -> carried.., emitted.., tokens..
    while: carried.., tokens..            -> carried.., tokens..
      condition: carried.., tokens..      -> whether to go on, tokens..
      body: carried.., tokens..           -> carried.., tokens..
    if: condition, tokens..               -> values.., tokens..
      then, otherwise: tokens..           -> values.., tokens..

Nobody else counts positions: passes read a node through `view` (a `ForView`, `WhileView` or `IfView`), ask `flows` what
belongs to each of its results, and make nodes with `for_node`, `while_node` and `if_node`, whose result types follow
from the regions. Assumes a node that `dfc.ops.check` accepts, or one on its way through `dfc.ir.rewrite`, then with the
operands and regions that it is about to have. Guarantees that the three parts of a list are all of it, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import ForAttributes
from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import Type
from dfc.ir.walk import free_values


@dataclass(frozen=True, slots=True)
class Window:
    """The parts of a list of values: tensors that are carried or handed out, those that a `for` emits, tokens."""

    values: tuple[Value, ...] = ()
    emitted: tuple[Value, ...] = ()
    tokens: tuple[Value, ...] = ()
    all: tuple[Value, ...] = ()

    @property
    def tensors(self) -> tuple[Value, ...]:
        return (*self.values, *self.emitted)


@dataclass(frozen=True, slots=True)
class ForView:
    """A `for`: `index` from `start` to below `stop`; `initial` are operands, `inside` parameters and `after` outputs of
    the body."""

    node: Node
    attributes: ForAttributes
    start: Value
    stop: Value
    initial: Window
    body: Block
    index: Value
    inside: Window
    after: Window
    results: Window


@dataclass(frozen=True, slots=True)
class WhileView:
    """A `while`: `test` is the output of the condition that says whether to go on, `tested` are its tokens."""

    node: Node
    initial: Window
    condition: Block
    condition_inside: Window
    test: Value
    tested: Window
    body: Block
    inside: Window
    after: Window
    results: Window


@dataclass(frozen=True, slots=True)
class IfView:
    """An `if`: `initial` are its tokens; `inside` and `after` belong to the branches, the one that is taken first."""

    node: Node
    condition: Value
    initial: Window
    then: Block
    otherwise: Block
    inside: tuple[Window, Window]
    after: tuple[Window, Window]
    results: Window


RegionView: TypeAlias = ForView | WhileView | IfView


@dataclass(frozen=True, slots=True)
class Flow:
    """What belongs to result `number` of a node with regions.

    `outputs` are what bodies (of an `if` both branches) hand out for it. What is carried, and each token, has an
    `initial` operand and `parameters`, one a region. `tested` is the token behind the condition of a `while`.
    """

    number: int
    result: Value
    outputs: tuple[Value, ...]
    initial: Value | None = None
    parameters: tuple[Value, ...] = ()
    tested: Value | None = None
    is_emitted: bool = False


def for_view(node: Node, operands: Sequence[Value] | None = None, regions: Sequence[Block] | None = None) -> ForView:
    """A `for` by its parts; `operands` and `regions` if it has others by now."""
    attributes = node.attributes
    assert isinstance(attributes, ForAttributes), node
    start, stop, *initial = node.operands if operands is None else operands
    (body,) = node.regions if regions is None else regions
    index, *inside = body.parameters
    return ForView(
        node,
        attributes,
        start,
        stop,
        _window(initial),
        body,
        index,
        _window(inside),
        _window(body.outputs, attributes.carries),
        _window(node.results, attributes.carries),
    )


def while_view(
    node: Node, operands: Sequence[Value] | None = None, regions: Sequence[Block] | None = None
) -> WhileView:
    """A `while` by its parts; `operands` and `regions` if it has others by now."""
    assert node.op == "while", node
    condition, body = node.regions if regions is None else regions
    test, *tested = condition.outputs
    return WhileView(
        node,
        _window(node.operands if operands is None else operands),
        condition,
        _window(condition.parameters),
        test,
        _window(tested),
        body,
        _window(body.parameters),
        _window(body.outputs),
        _window(node.results),
    )


def if_view(node: Node, operands: Sequence[Value] | None = None, regions: Sequence[Block] | None = None) -> IfView:
    """An `if` by its parts; `operands` and `regions` if it has others by now."""
    assert node.op == "if", node
    condition, *initial = node.operands if operands is None else operands
    then, otherwise = node.regions if regions is None else regions
    return IfView(
        node,
        condition,
        _window(initial),
        then,
        otherwise,
        (_window(then.parameters), _window(otherwise.parameters)),
        (_window(then.outputs), _window(otherwise.outputs)),
        _window(node.results),
    )


def view(node: Node, operands: Sequence[Value] | None = None, regions: Sequence[Block] | None = None) -> RegionView:
    """A node with regions by its parts; `operands` and `regions` if it has others by now."""
    match node.op:
        case "for":
            return for_view(node, operands, regions)
        case "while":
            return while_view(node, operands, regions)
        case _:
            return if_view(node, operands, regions)


def _window(values: Sequence[Value], carried: int | None = None) -> Window:
    """The parts of a list; what stands between `carried` values and the tokens is emitted."""
    tokens = next((position for position, value in enumerate(values) if value.is_token), len(values))
    first = tokens if carried is None else carried
    return Window(tuple(values[:first]), tuple(values[first:tokens]), tuple(values[tokens:]), tuple(values))


def flows(parts: RegionView) -> tuple[Flow, ...]:
    """What belongs to each result of a node, in their order."""
    result_flows: list[Flow] = []
    for number, result in enumerate(parts.results.all):
        position = number - len(parts.results.all) if result.is_token else number
        match parts:
            case IfView():
                outputs = tuple(_at(window, position) for window in parts.after)
                if result.is_token:
                    parameters = tuple(_at(window, position) for window in parts.inside)
                    result_flows.append(Flow(number, result, outputs, _at(parts.initial, position), parameters))
                else:
                    result_flows.append(Flow(number, result, outputs))
            case WhileView():
                parameters = _at(parts.condition_inside, position), _at(parts.inside, position)
                tested = _at(parts.tested, position) if result.is_token else None
                output, initial = _at(parts.after, position), _at(parts.initial, position)
                result_flows.append(Flow(number, result, (output,), initial, parameters, tested))
            case ForView():
                output = _at(parts.after, position)
                if not result.is_token and number >= len(parts.results.values):
                    result_flows.append(Flow(number, result, (output,), is_emitted=True))
                else:
                    initial, parameter = _at(parts.initial, position), _at(parts.inside, position)
                    result_flows.append(Flow(number, result, (output,), initial, (parameter,)))
    return tuple(result_flows)


def _at(window: Window, position: int) -> Value:
    """The value that stands at a position of a list, counted from its end for tokens, which are last in all of them."""
    return window.all[position]


def carried(parts: RegionView) -> tuple[Flow, ...]:
    """What belongs to each tensor that goes from iteration to iteration; nothing for an `if`."""
    return tuple(flow for flow in flows(parts) if flow.initial is not None and not flow.result.is_token)


def controls(parts: RegionView) -> tuple[Value, ...]:
    """The values that say which branch or how many iterations run; that of a `while` is in its condition."""
    match parts:
        case ForView():
            return parts.start, parts.stop
        case WhileView():
            return (parts.test,)
        case IfView():
            return (parts.condition,)


def bodies(parts: RegionView) -> tuple[Block, ...]:
    """The regions that hand out the results: both branches of an `if`, the body of a loop."""
    return (parts.then, parts.otherwise) if isinstance(parts, IfView) else (parts.body,)


def operands_of(parts: RegionView, initial: Sequence[Value]) -> tuple[Value, ...]:
    """The operands of a node that begins with other values, tokens last."""
    return (*initial,) if isinstance(parts, WhileView) else (*controls(parts), *initial)


def captured(node: Node) -> tuple[Value, ...]:
    """The values from around a node that its regions use, in the order of their first use."""
    return tuple(dict.fromkeys(value for region in node.regions for value in free_values(region)))


# ------------------------------------------------------------------ making --


class Origin(Protocol):
    """What a node is made for, another node or a builder: it gives name and span."""

    @property
    def name(self) -> str: ...
    @property
    def span(self) -> Span: ...


def for_node(
    start: Value,
    stop: Value,
    initial: Sequence[Value],
    body: Block,
    *,
    trips: Dim | None = None,
    recompute: int = 0,
    origin: Origin | None = None,
) -> Node:
    """A `for` over `initial` values, tokens last; what the body hands out besides them is emitted, and stacked along an
    axis of `trips`, which then has to be given. Name and span are those of `origin`."""
    window = _window(initial)
    emitted = _window(body.outputs, len(window.values)).emitted
    assert trips is not None or not emitted, "emits need a number of iterations"
    stacked = [value.tensor.with_shape((trips, *value.tensor.shape)) for value in emitted if trips is not None]
    types: list[Type] = [*_types(window.values), *stacked, *_types(window.tokens)]
    attributes = ForAttributes(len(window.values), trips, recompute)
    return _region_node("for", (start, stop, *initial), types, (body,), origin, attributes)


def while_node(initial: Sequence[Value], condition: Block, body: Block, *, origin: Origin | None = None) -> Node:
    """A `while` over `initial` values, tokens last."""
    return _region_node("while", initial, _types(initial), (condition, body), origin)


def if_node(
    condition: Value,
    then: Block,
    otherwise: Block,
    tokens: Sequence[Value] = (),
    *,
    origin: Origin | None = None,
) -> Node:
    """An `if` whose results are what its branches hand out."""
    return _region_node("if", (condition, *tokens), _types(then.outputs), (then, otherwise), origin)


def _region_node(
    op: str,
    operands: Sequence[Value],
    types: Sequence[Type],
    regions: Sequence[Block],
    origin: Origin | None,
    attributes: ForAttributes | None = None,
) -> Node:
    name, span = (origin.name, origin.span) if origin is not None else ("", None)
    return Node(op, operands, types, attributes=attributes, regions=regions, name=name, span=span)


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in values]


def with_outputs(block: Block, extra: Sequence[Value]) -> Block:
    """A region that also hands out these tensors, behind its own and before its tokens."""
    window = _window(block.outputs)
    return Block(block.parameters, block.nodes, (*window.values, *extra, *window.tokens))


def remade(node: Node, operands: Sequence[Value], regions: Sequence[Block]) -> Node:
    """The node over other operands and regions that may carry or hand out more or less; its results follow them.

    What the first of the operands are (bounds, condition) stays. Attributes, name and span stay too."""
    match node.op:
        case "for":
            start, stop, *initial = operands
            (body,) = regions
            how = for_view(node).attributes
            return for_node(start, stop, initial, body, trips=how.trips, recompute=how.recompute, origin=node)
        case "while":
            condition, body = regions
            return while_node(operands, condition, body, origin=node)
        case _:
            then, otherwise = regions
            condition, *tokens = operands
            return if_node(condition, then, otherwise, tokens, origin=node)


def with_more_results(
    node: Node, operands: Sequence[Value], regions: Sequence[Block], count: int
) -> tuple[Node, tuple[Value, ...], tuple[Value, ...]]:
    """The node over regions that hand out `count` more tensors, behind those that it has: with it the results that
    stand for the old ones, and the new ones."""
    new = remade(node, operands, regions)
    first = len(_window(node.results).values)
    return new, old_results(node, new), new.results[first : first + count]


def old_results(node: Node, new: Node) -> tuple[Value, ...]:
    """The results of a node that was made anew with more of them, as far as the first one has them."""
    plain, tokens = len(_window(node.results).values), len(_window(node.results).tokens)
    return (*new.results[:plain], *new.results[len(new.results) - tokens :])


def keep_results(parts: RegionView, keep: Sequence[bool]) -> Node:
    """The node with only these of its results, and only what belongs to them."""
    kept = [flow for flow, is_kept in zip(flows(parts), keep, strict=True) if is_kept]
    initial = [flow.initial for flow in kept if flow.initial is not None]
    started = [flow for flow in kept if flow.initial is not None]

    def region(old: Block, position: int, first: Sequence[Value], outputs: Sequence[Value]) -> Block:
        return Block((*first, *(flow.parameters[position] for flow in started)), old.nodes, outputs)

    match parts:
        case IfView():
            branches = [
                region(old, number, (), [flow.outputs[number] for flow in kept])
                for number, old in enumerate((parts.then, parts.otherwise))
            ]
            return remade(parts.node, (parts.condition, *initial), branches)
        case WhileView():
            tested = [flow.tested for flow in kept if flow.tested is not None]
            condition = region(parts.condition, 0, (), (parts.test, *tested))
            body = region(parts.body, 1, (), [flow.outputs[0] for flow in kept])
            return remade(parts.node, initial, (condition, body))
        case ForView():
            body = region(parts.body, 0, (parts.index,), [flow.outputs[0] for flow in kept])
            return remade(parts.node, (parts.start, parts.stop, *initial), (body,))
