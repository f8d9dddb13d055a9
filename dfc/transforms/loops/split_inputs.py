"""split_inputs: products of what a loop reads with a matrix from outside stand by themselves.

    for x in xs {                                        let wx, wh = w[:I], w[I:]
      let z: f32[1, N] = concat([x, h], axis = 1) @ w    for x in xs {
    }                                             ->       let z: f32[1, N] = x @ wx + h @ wh
                                                         }

`x @ wx` does not wait for the iteration before, so that `hoist_inputs` can make one product of those of all iterations;
and the backward pass need not compute the cotangent of `x` if nobody asks. A vector `x` becomes a matrix of one row for
the same reason.

Only for few rows an iteration: with many, one product an iteration reads the matrix rarely enough. Runs before
`autodiff`, so that loops whose iterations are computed again (`with recompute`) round in the same way. A concatenation
that is used elsewhere stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir import walk
from dfc.ir.dims import ONE, ZERO, Dim
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild, with_parts
from dfc.ops.attributes import AxisAttributes, SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.lowering.contractions import WithMatrix, with_matrix
from dfc.ops.lowering.forms import Concat
from dfc.ops.lowering.views import is_reshape, picked_axis
from dfc.ops.registry import lowering_of

NAME = "split_inputs"
FEW = 32
FIRST = AxisAttributes(0)


def split_inputs(graph: Graph) -> Graph:
    return map_blocks(graph, _split_block)


def _split_block(block: Block) -> Block:
    split = rebuild(block, _Loops())
    return block if split is block else name_nodes(split, block)


def inputs_of(region: Block) -> dict[Value, Value]:
    """Rows that the iterations of a `for` read one after the other, perhaps reshaped, and the values they are rows
    of."""
    own = walk.defined_values(region)
    inputs: dict[Value, Value] = {}
    for node in region.nodes:
        if picked_axis(node) == 0 and node.operands[1] is region.parameters[0]:
            if node.operands[0] not in own:
                inputs[node.result] = node.operands[0]
        elif node.operands and node.operands[0] in inputs and is_reshape(node) and _same_width(node):
            inputs[node.result] = inputs[node.operands[0]]
    return inputs


def _same_width(node: Node) -> bool:
    before, after = node.operands[0].tensor.shape, node.result.tensor.shape
    return bool(before) and bool(after) and before[-1] == after[-1]


def is_few(rows: Sequence[Dim]) -> bool:
    """Whether a product of so many rows is dominated by reading the matrix."""
    sizes = [size.constant for size in rows]
    return all(size is not None and size <= FEW for size in sizes)


def matrix_products(region: Block) -> dict[Node, WithMatrix]:
    """Products of rows with a matrix from outside, the second operand, and how that lies."""
    own = walk.defined_values(region)
    products: dict[Node, WithMatrix] = {}
    for node in region.nodes:
        product = with_matrix(node, 1)
        if product is not None and node.operands[1] not in own and not (product.factor_turned or product.result_turned):
            products[node] = product
    return products


def upright(b: Builder, matrix: Value, product: WithMatrix) -> Value:
    """A matrix with the axis first that is summed over."""
    return matrix if product.summed_first else b.transpose(matrix, (1, 0))


class _Loops(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op != "for":
            return None
        (region,) = site.regions
        inputs = inputs_of(region)
        if not inputs:
            return None
        counts = walk.use_counts(region)
        chosen = {n: product for n, product in matrix_products(region).items() if _is_split(n, inputs, counts)}
        if not chosen:
            return None
        rewritten = rebuild(region, _Products(chosen, inputs, site))
        rewritten_node = with_parts(site.node, site.operands, [rewritten])
        site.output.append(rewritten_node)
        return rewritten_node.results


def _is_split(node: Node, inputs: dict[Value, Value], counts: dict[Value, int]) -> bool:
    factor = node.operands[0]
    if factor.tensor.rank > 2 or not is_few(factor.tensor.shape[:-1]):
        return False
    if factor in inputs:
        return factor.tensor.rank == 1
    parts = _parts(factor)
    return counts[factor] == 1 and any(p in inputs for p in parts) and not all(p in inputs for p in parts)


def _parts(factor: Value) -> Sequence[Value]:
    """What lies side by side in a concatenation along the last axis."""
    node = factor.node
    lowering = lowering_of(node) if node is not None else None
    if node is None or not isinstance(lowering, Concat):
        return ()
    return node.operands if lowering.axis(node) == factor.tensor.rank - 1 else ()


class _Products(Pass):
    """Rewrites the chosen products of a region; slices of their matrices go before the loop."""

    def __init__(self, chosen: Mapping[Node, WithMatrix], inputs: dict[Value, Value], loop: RewriteSite) -> None:
        self._chosen = chosen
        self._inputs = inputs
        self._before = Builder.appending(loop.output, name=loop.node.name, span=loop.node.span)

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node not in self._chosen:
            return None
        factor, matrix = site.operands
        matrix = upright(self._before, matrix, self._chosen[site.node])
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        if factor in self._inputs:
            return [_as_rows(builder, factor, matrix)]
        total: Value | None = None
        first = ZERO
        for part in self._pieces(builder, _parts(factor)):
            width = part.tensor.shape[-1]
            share = _rows_of(self._before, matrix, first, width)
            first = first + width
            product = _as_rows(builder, part, share) if part in self._inputs else builder.apply("matmul", part, share)
            total = product if total is None else builder.apply("add", total, product)
        assert total is not None
        return [total]

    def _pieces(self, builder: Builder, parts: Sequence[Value]) -> list[Value]:
        """Inputs by themselves, and what lies between them in one piece."""
        pieces: list[list[Value]] = []
        for part in parts:
            if pieces and part not in self._inputs and pieces[-1][0] not in self._inputs:
                pieces[-1].append(part)
            else:
                pieces.append([part])
        return [p[0] if len(p) == 1 else builder.concat(p, p[0].tensor.rank - 1) for p in pieces]


def _as_rows(b: Builder, factor: Value, matrix: Value) -> Value:
    """The product of a vector as that of a matrix with one row."""
    if factor.tensor.rank == 2:
        return b.apply("matmul", factor, matrix)
    row = b.reshape(factor, (ONE, factor.tensor.shape[0]))
    return b.reshape(b.apply("matmul", row, matrix), matrix.tensor.shape[1:])


def _rows_of(b: Builder, matrix: Value, first: Dim, count: Dim) -> Value:
    columns = matrix.tensor.shape[1]
    return b.apply("slice", matrix, attributes=SliceAttributes((first, ZERO), (count, columns), (1, 1)))
