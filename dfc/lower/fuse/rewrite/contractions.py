"""Contractions become products of matrices, `[.., M, K] @ [.., K, N]`, whatever order their axes have.

Before: a contraction of x[M, K] and y[N, K], say; of x[B, M, K] and w[K, N]; of a[M, K] and v[K].
After: `x @ transpose(y)`; `x @ broadcast(w)`; `sum(a * v, axis = 1)`, since that is no product of matrices.

A product reads its factors through such views (`items/factors`), so that nothing is copied. Assumes that both operands
have the element type of the result. Guarantees sums in the order of the axis that is summed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Value
from dfc.ir.rewrite import RewriteSite
from dfc.lower.fuse.rewrite.appending import append_node
from dfc.ops.attributes import PermutationAttributes, ReduceAttributes, ShapeAttributes
from dfc.ops.lowering.contractions import contraction_of, product_axes
from dfc.ops.lowering.forms import ContractAxes


def as_matrix_product(site: RewriteSite) -> Sequence[Value] | None:
    """What a contraction becomes; None if it is a product of matrices already, or no contraction."""
    axes, rank = contraction_of(site.node), 0
    if axes is None:
        return None
    rank = site.node.result.tensor.rank
    required = product_axes(rank) if rank > 1 else None
    if axes == required:
        return None
    factors = _factors(axes, rank, site.operands) if required is not None else None
    if required is None or factors is None:
        return [_sum_of_products(site, axes)]
    (a, of_a), (b, of_b) = factors
    extents = _extents(site, axes)
    left = _with_axes(site, a, of_a, required.left, extents)
    right = _with_axes(site, b, of_b, required.right, extents)
    return append_node(site, "matmul", (left, right), (site.node.result.type,)).results


def _factors(axes: ContractAxes, rank: int, operands: Sequence[Value]) -> list[tuple[Value, tuple[int, ...]]] | None:
    """The operand with the rows of the result and the one with its columns, each with its axes; None if one has
    both."""
    rows, columns = rank - 2, rank - 1
    factors = list(zip(operands, (axes.left, axes.right), strict=True))
    for ordered in (factors, factors[::-1]):
        (_, first), (_, second) = ordered
        if rows in first and columns in second and columns not in first and rows not in second:
            return ordered
    return None


def _extents(site: RewriteSite, axes: ContractAxes) -> dict[int, Dim]:
    """The size of each axis of a contraction."""
    extents = dict(enumerate(site.node.result.tensor.shape))
    extents.update(zip(axes.left, site.operands[0].tensor.shape, strict=True))
    return extents


def _with_axes(
    site: RewriteSite, value: Value, own: Sequence[int], required: Sequence[int], extents: dict[int, Dim]
) -> Value:
    """An operand with these axes in this order; it is repeated along those that it lacks."""
    value = _aligned(site, value, own, required)
    shape = tuple(extents[axis] for axis in required)
    if value.tensor.shape == shape:
        return value
    return append_node(site, "broadcast", (value,), (value.tensor.with_shape(shape),), ShapeAttributes(shape)).result


def _aligned(site: RewriteSite, value: Value, own: Sequence[int], required: Sequence[int]) -> Value:
    """An operand whose axes stand in this order, so that it can be broadcast along those that it lacks."""
    order = tuple(own.index(axis) for axis in required if axis in own)
    value = _transposed(site, value, order)
    sizes = iter(value.tensor.shape)
    first = min((required.index(axis) for axis in own), default=len(required))
    shape = tuple(next(sizes) if axis in own else ONE for axis in required[first:])
    if value.tensor.shape == shape:
        return value
    return append_node(site, "reshape", (value,), (value.tensor.with_shape(shape),), ShapeAttributes(shape)).result


def _transposed(site: RewriteSite, value: Value, order: tuple[int, ...]) -> Value:
    if order == tuple(range(len(order))):
        return value
    kind = value.tensor.with_shape(tuple(value.tensor.shape[axis] for axis in order))
    return append_node(site, "transpose", (value,), (kind,), PermutationAttributes(order)).result


def _sum_of_products(site: RewriteSite, axes: ContractAxes) -> Value:
    """All products, in the order of the axes of an operand that has them all, if there is one; and their sums."""
    kind = site.node.result.tensor
    whole = (*range(kind.rank), kind.rank)
    terms = next((each for each in (axes.left, axes.right) if set(each) == set(whole)), whole)
    pairs = zip(site.operands, (axes.left, axes.right), strict=True)
    factors = [_aligned(site, value, own, terms) for value, own in pairs]
    extents = _extents(site, axes)
    shape = tuple(extents[axis] for axis in terms)
    products = append_node(site, "mul", factors, (kind.with_shape(shape),)).result
    summed = terms.index(kind.rank)
    kept = [axis for axis in terms if axis != kind.rank]
    sums = kind.with_shape(tuple(extents[axis] for axis in kept))
    total = append_node(site, "sum", (products,), (sums,), ReduceAttributes((summed,))).result
    return _transposed(site, total, tuple(kept.index(axis) for axis in range(kind.rank)))
