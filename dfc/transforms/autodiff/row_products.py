"""The gradient of a matrix that every iteration multiplies with: one product for a block of iterations, not one an
iteration.

    loop h = h0 for i in 0..n {                    dw = dw + transpose(h) @ dz        in every iteration
      z = h @ w                            ->
    }                                              dw = dw + transpose(hs[b]) @ dzs[b]    for each block of 16
    iterations

The backward loop emits what the matrix was multiplied with and the cotangents of the products (`hs`, `dzs`), last
iteration first, and so are the sums of each product. Blocks begin at every sixteenth iteration, counted from the first
one, and are added last one first: what comes out does not depend on how the loop was cut into segments
(`split_iterations`), bit for bit. The last, shorter block is a product of its own where sizes say how short it is; else
zeros stand for what it lacks, which changes no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, product
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import captured, for_node, for_view
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, SliceAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.iterations import size_of
from dfc.ops.lowering.contractions import WithMatrix, with_matrix
from dfc.transforms.autodiff.expose import with_stacks

ROWS = 16
FIRST = AxisAttributes(0)


def products_with(node: Node, outer: set[Value]) -> Iterator[tuple[Node, int]]:
    """Products of a loop's body with one of some matrices from outside: the node, and which operand is the matrix."""
    for inner in for_view(node).body.nodes:
        for number in (1, 0):
            if with_matrix(inner, number) is None:
                continue
            if inner.operands[number] in outer and inner.operands[1 - number] not in outer:
                yield inner, number


def has_products(node: Node) -> bool:
    """Whether the body of a loop multiplies with a matrix from outside."""
    return any(True for _ in products_with(node, set(captured(node))))


def added(
    builder: Builder, total: Value, products: Sequence[tuple[WithMatrix, Value, Value]], trips: Value, *, exact: bool
) -> Value:
    """The total and the products of all iterations with one matrix. `products`: how it lies in them, the other factors
    and the cotangents, stacked last iteration first. `trips` of the stacked rows have a meaning; `exact`: all
    of them.
    """
    room = products[0][1].tensor.shape[0]
    if exact and size_of(trips) is not None:
        return _added_by_sizes(builder, total, products, room)
    more = builder.apply("add", trips, builder.constant(ROWS - 1, I64))
    count = builder.apply("floordiv", more, builder.constant(ROWS, I64))

    def block(inside: Builder, number: Value, stack: Value) -> Value:
        return _block(inside, stack, *_row_indices(inside, number, count, trips))

    return _loop(builder, total, products, (count, ceil_divide(room, dim(ROWS))), block)


def _added_by_sizes(
    builder: Builder, total: Value, products: Sequence[tuple[WithMatrix, Value, Value]], room: Dim
) -> Value:
    """The shorter block, then all others."""
    rest, blocks = room % dim(ROWS), room // dim(ROWS)
    if rest != ZERO:
        total = _sum_of(builder, total, products, lambda stack: _first_rows(builder, stack, rest))
    if blocks == ZERO:
        return total

    def block(inside: Builder, number: Value, stack: Value) -> Value:
        return _below_each_other(inside, inside.apply("gather", stack, _from(inside, rest, number), attributes=FIRST))

    return _loop(builder, total, products, (builder.size(blocks), blocks), block)


def _from(b: Builder, rest: Dim, number: Value) -> Value:
    """Where the rows of a full block are."""
    first = b.apply("add", b.size(rest), b.apply("mul", number, b.constant(ROWS, I64)))
    return b.apply("add", first, _steps(b))


def _steps(b: Builder) -> Value:
    return b.node("iota", (), TypeAttributes(TensorType(I64, (dim(ROWS),)))).result


def _loop(
    builder: Builder,
    total: Value,
    products: Sequence[tuple[WithMatrix, Value, Value]],
    count: tuple[Value, Dim],
    block: Callable[[Builder, Value, Value], Value],
) -> Value:
    """The products of so many blocks; `block` makes the rows of one from its number and a stack."""
    number, sofar = Value(TensorType(I64), "iteration"), Value(total.type, total.name)
    body = Block((number, sofar))
    inside = Builder(body, name=builder.name, span=builder.span)
    body.outputs = (_sum_of(inside, sofar, products, lambda stack: block(inside, number, stack)),)
    first = builder.constant(0, I64)
    loop = for_node(first, count[0], (total,), body, trips=count[1], origin=builder)
    return builder.append(with_stacks(loop)).result


def _sum_of(
    b: Builder, total: Value, products: Sequence[tuple[WithMatrix, Value, Value]], rows: Callable[[Value], Value]
) -> Value:
    for lies, *stacks in products:
        product = b.reshape(_product(b, rows(stacks[0]), rows(stacks[1]), lies), total.tensor.shape)
        total = b.apply("add", total, product)
    return total


def _first_rows(b: Builder, stack: Value, count: Dim) -> Value:
    """The rows of the last iterations one below the other."""
    shape = (count, *stack.tensor.shape[1:])
    attributes = SliceAttributes((ZERO,) * len(shape), shape, (1,) * len(shape))
    return _below_each_other(b, b.apply("slice", stack, attributes=attributes))


def _below_each_other(b: Builder, rows: Value) -> Value:
    shape = rows.tensor.shape
    return b.reshape(rows, (product(shape[:-1]), shape[-1]))


def _row_indices(b: Builder, number: Value, count: Value, trips: Value) -> tuple[Value, Value]:
    """Where the rows of a block are, last iteration first; and which of them exist."""
    one, sixteen = b.constant(1, I64), b.constant(ROWS, I64)
    block = b.apply("sub", b.apply("sub", count, one), number)
    beyond = b.apply("sub", trips, b.apply("mul", b.apply("add", block, one), sixteen))
    ids, zero = b.apply("add", beyond, _steps(b)), b.constant(0, I64)
    return b.apply("maximum", ids, zero), b.apply("greater_equal", ids, zero)


def _block(b: Builder, stack: Value, ids: Value, valid: Value) -> Value:
    """The rows of a block one below the other: `[rows, columns]`."""
    return _below_each_other(b, masked(b, b.apply("gather", stack, ids, attributes=FIRST), valid))


def masked(b: Builder, rows: Value, valid: Value) -> Value:
    """Zeros where a row has no meaning."""
    shape = (valid.tensor.shape[0], *(ONE for _ in rows.tensor.shape[1:]))
    where = b.broadcast(b.reshape(valid, shape), rows.tensor.shape)
    return b.apply("select", where, rows, b.broadcast(b.constant(0, rows.tensor.dtype), rows.tensor.shape))


def _product(b: Builder, factors: Value, cotangents: Value, lies: WithMatrix) -> Value:
    """`h @ w` gives `w` what `transpose(h) @ dz` is; `w @ x`, with columns laid down as rows, `transpose(dz) @ x`."""
    left, right = (factors, cotangents) if lies.summed_first else (cotangents, factors)
    return b.apply("matmul", b.transpose(left, (1, 0)), right)


def laid_down(b: Builder, value: Value, *, turned: bool) -> Value:
    """A factor or cotangent of one iteration as rows: what stands right of the matrix is turned."""
    if value.tensor.rank == 1:
        return b.reshape(value, (ONE, value.tensor.shape[0]))
    return b.transpose(value, (1, 0)) if turned else value


def operands_of(b: Builder, copy: Node, cotangent: Value, index: int, lies: WithMatrix) -> tuple[Value, Value]:
    """What an iteration emits for a product with a matrix, the operand `index`."""
    cotangent = b.reshape(cotangent, copy.result.tensor.shape)
    factor = laid_down(b, copy.operands[1 - index], turned=lies.factor_turned)
    return factor, laid_down(b, cotangent, turned=lies.result_turned)


# ------------------------------------------------------------- picked rows --


def picked_rows(b: Builder, copy: Node, cotangent: Value) -> tuple[Value, Value]:
    """What an iteration emits for rows it has picked: their numbers and cotangents."""
    return copy.operands[1], b.reshape(cotangent, copy.result.tensor.shape)


def meaningful(b: Builder, stack: Value, trips: Value) -> Value:
    """A stack with zeros in place of the iterations that did not take place."""
    steps = b.node("iota", (), TypeAttributes(TensorType(I64, (stack.tensor.shape[0],)))).result
    return masked(b, stack, b.apply("less", steps, trips))


def below_each_other(b: Builder, ids: Value, cotangents: Value) -> tuple[Value, Value]:
    """Stacked numbers `[n, ..]` as one axis, and the cotangents that belong to them."""
    rank = ids.tensor.rank
    count = product(ids.tensor.shape)
    return b.reshape(ids, (count,)), b.reshape(cotangents, (count, *cotangents.tensor.shape[rank:]))
