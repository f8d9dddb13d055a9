"""fold: computes at compile time what depends on constants alone.

    let a: f32 = graph.constant(type_ = f32, value = 2.0)
    let b: f32 = a * a                                     ->  let b: f32 = graph.constant(type_ = f32, value = 4.0)

Only pure ops with the same bits everywhere (`dfc.ops.exactness`): what is folded must be what the program would have
computed. What grows beyond its operands stays as it is (a broadcast costs nothing when it is fused, a big constant
does), and so does what would fail when it runs. A branch on a constant is replaced by the side that is taken, an
assertion that holds by nothing, a loop of no iterations by what it starts with.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Literal
from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.regions import for_node, for_view, if_view
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, map_blocks, rebuild
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.constants import constant_of
from dfc.ops.control.iterations import size_of, trip_count
from dfc.ops.effects.effects import is_pure
from dfc.ops.evaluate import evaluate_node
from dfc.ops.exactness import is_exact
from dfc.ops.record import Array
from dfc.transforms.scalar.dead_results import without_idle_tokens
from dfc.transforms.scalar.matching import GRADIENT_OPS
from dfc_runtime.errors import DfcError

NAME = "fold"


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """`limit`: results of more bytes stay. `free`: results of at most so many bytes may grow."""

    limit: int = 64 * 1024
    free: int = 64


DEFAULTS = FoldOptions()


def fold(graph: Graph, options: FoldOptions = DEFAULTS) -> Graph:
    return map_blocks(graph, lambda block: fold_block(block, options))


def fold_block(block: Block, options: FoldOptions = DEFAULTS) -> Block:
    folded = rebuild(block, _Fold(options))
    return block if folded is block else name_nodes(without_idle_tokens(folded), block)


class _Fold(Pass):
    def __init__(self, options: FoldOptions) -> None:
        self._options = options

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        match site.node.op:
            case "if":
                return _fold_if(site)
            case "for":
                return _fold_for(site)
            case "assert":
                return _fold_assert(site)
            case "constant":
                return None
            case _:
                return self._fold_node(site)

    def _fold_node(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        operands = [constant_of(v) for v in site.operands]
        known = [array for array in operands if array is not None]
        if len(known) != len(operands) or node.regions or node.op in GRADIENT_OPS:
            return None
        if not is_pure(node) or not is_exact(node) or not self._fits(site):
            return None
        try:
            results = evaluate_node(node, known, {})
        except (DfcError, KeyError):
            return None  # it fails, or needs sizes, only when it runs
        return [_constant(site, value, array) for value, array in zip(node.results, results, strict=True)]

    def _fits(self, site: RewriteSite) -> bool:
        """Whether the results are small, or smaller than what they are made of."""
        result_bytes = sum(_bytes(v) for v in site.node.results)
        operand_bytes = sum(_bytes(v) for v in site.operands)
        return result_bytes <= self._options.limit and result_bytes <= max(operand_bytes, self._options.free)


def _bytes(value: Value) -> float:
    elements = value.tensor.elements.constant
    return float("inf") if elements is None else elements * value.tensor.machine.size


def _constant(site: RewriteSite, value: Value, array: Array) -> Value:
    literal = Literal(array)
    node = Node(
        "constant",
        (),
        (value.type,),
        attributes=ConstantAttributes(literal),
        name=value.name,
        span=site.node.span,
    )
    site.output.append(node)
    return node.result


def _fold_if(site: RewriteSite) -> Sequence[Value] | None:
    parts = if_view(site.node, site.operands, site.regions)
    condition = constant_of(parts.condition)
    if condition is None:
        return None
    taken = parts.then if bool(condition) else parts.otherwise
    return Cloner().call(taken, parts.initial.tokens, site.output)


def _fold_assert(site: RewriteSite) -> Sequence[Value] | None:
    condition = constant_of(site.operands[0])
    return site.operands[1:] if condition is not None and bool(condition) else None


def _fold_for(site: RewriteSite) -> Sequence[Value] | None:
    """No iterations: the initial values. Otherwise the number of iterations, once both bounds are known."""
    node, parts = site.node, for_view(site.node, site.operands, site.regions)
    trips, emits = trips_between(parts.start, parts.stop), parts.results.emitted
    if trips is not None and trips.constant == 0 and not emits:
        return parts.initial.all
    known_already = parts.attributes.trips is not None  # perhaps from facts, which are not known here
    if trips is None or emits or known_already:
        return None
    known = for_node(
        parts.start,
        parts.stop,
        parts.initial.all,
        parts.body,
        trips=trips,
        recompute=parts.attributes.recompute,
        origin=node,
    )
    site.output.append(known)
    return known.results


def trips_between(start: Value, stop: Value) -> Dim | None:
    """The number of iterations of a `for`, if both bounds are sizes or constants."""
    first, last = size_of(start), size_of(stop)
    return trip_count(first, last) if first is not None and last is not None else None
