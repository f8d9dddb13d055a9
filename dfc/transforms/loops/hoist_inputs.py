"""hoist_inputs: the input part of a recurrent cell becomes one product for all iterations.

    for x in xs {                                        let zs: f32[T, 1, N] = xs @ wx
      let z: f32[1, N] = x @ wx + h @ wh                 for z0 in zs {
    }                                             ->       let z: f32[1, N] = z0 + h @ wh
                                                         }

A product of few rows costs the reading of its matrix, which is now read once. Where iterations have many rows, or how
many is not known, the stack of products would be large for little; it is made only if the loop emits the products
anyway, for its backward pass. The results are the same to the last bit: an element of a product does not depend on the
other rows.

Assumes loops that begin at 0; others stay. Runs after `autodiff`, whose gradients of the matrix are sums over
iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import ONE, ZERO
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.regions import ForView, flows, for_view
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild, with_parts
from dfc.ops.attributes import ForAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.iterations import size_of
from dfc.transforms.loops.split_inputs import FIRST, inputs_of, is_few, matrix_products, upright

NAME = "hoist_inputs"


def hoist_inputs(graph: Graph) -> Graph:
    return map_blocks(graph, _hoist_block)


def _hoist_block(block: Block) -> Block:
    hoisted = rebuild(block, _Loops())
    return block if hoisted is block else name_nodes(hoisted, block)


class _Loops(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if node.op != "for":
            return None
        parts = for_view(node, site.operands, site.regions)
        if not _runs_over_all(parts):
            return None
        region, inputs = parts.body, inputs_of(parts.body)
        stacked = {flow.outputs[0]: flow.number for flow in flows(parts) if flow.is_emitted}
        builder = Builder.appending(site.output, name=node.name, span=node.span)
        hoisted: dict[Node, Value] = {}
        for product, lies in matrix_products(region).items():
            if _is_hoisted(product, inputs, stacked, parts.attributes):
                matrix = upright(builder, product.operands[1], lies)
                hoisted[product] = _all_iterations(builder, product, inputs[product.operands[0]], matrix)
        if not hoisted:
            return None
        loop = with_parts(node, site.operands, [rebuild(region, _Rows(hoisted, parts.index))])
        site.output.append(loop)
        results = list(loop.results)
        for product, whole in hoisted.items():
            if product.result in stacked and whole.tensor.rank == 3:
                results[stacked[product.result]] = whole
        return results


def _runs_over_all(parts: ForView) -> bool:
    """Whether the index is 0, 1, .. up to the number of iterations, which is a size."""
    first, last = size_of(parts.start), size_of(parts.stop)
    return first == ZERO and last is not None and last == parts.attributes.trips


def _is_hoisted(node: Node, inputs: dict[Value, Value], stacked: dict[Value, int], attributes: ForAttributes) -> bool:
    factor = node.operands[0]
    if factor not in inputs or factor.tensor.rank != 2 or inputs[factor].tensor.shape[0] != attributes.trips:
        return False
    return is_few(factor.tensor.shape[:-1]) or node.result in stacked


def _all_iterations(b: Builder, product: Node, rows: Value, matrix: Value) -> Value:
    """The products of all iterations, stacked; without the axis of the rows if each iteration has one: such a reshape
    would not name the memory but copy it."""
    height, width = product.operands[0].tensor.shape
    trips = rows.tensor.shape[0]
    product_rows = b.apply("matmul", b.reshape(rows, (trips * height, width)), matrix)
    return product_rows if height == ONE else b.reshape(product_rows, (trips, *product.result.tensor.shape))


class _Rows(Pass):
    """Takes the product of an iteration from the stack."""

    def __init__(self, hoisted: dict[Node, Value], index: Value) -> None:
        self._hoisted = hoisted
        self._index = index

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        whole = self._hoisted.get(site.node)
        if whole is None:
            return None
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        row = builder.apply("gather", whole, self._index, attributes=FIRST)
        return [builder.reshape(row, site.node.result.tensor.shape)]
