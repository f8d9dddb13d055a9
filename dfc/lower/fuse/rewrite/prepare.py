"""Rewrites a block so that fusion sees fewer kinds of nodes.

Before: `assign += v` of a whole variable; a read after it; a contraction; `gather` of a `gather`.
After: `read`, `add`, `assign :=`, and the read replaced by the value just assigned; a product of matrices; one `pick`.
Products of which only some columns are used become smaller (`columns`).

Assumes a verified block. Guarantees the same effects in the same order; only tokens of reads that went are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Node, Resource, Value
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ir.types import TensorType
from dfc.lower.fuse.rewrite.appending import append_node
from dfc.lower.fuse.rewrite.columns import narrow_products
from dfc.lower.fuse.rewrite.contractions import as_matrix_product
from dfc.lower.fuse.rewrite.gathers import gathers_first
from dfc.ops.attributes import (
    AssignAttributes,
    AxesAttributes,
    ResourceAttributes,
    ShapeAttributes,
    TypeAttributes,
)
from dfc.ops.lowering.views import picked_axes, picked_axis
from dfc.ops.operators import UPDATES
from dfc.transforms.scalar.dce import dce_block


def prepare(block: Block, resources: Mapping[str, Resource], isolated: frozenset[str] = frozenset()) -> Block:
    """The block; updates of `isolated` state stay as they are, since they have to happen in one piece."""
    return dce_block(narrow_products(rebuild(block, _Prepare(resources, isolated))))


class _Prepare(Pass):
    def __init__(self, resources: Mapping[str, Resource], isolated: frozenset[str]) -> None:
        self.resources = resources
        self.isolated = isolated

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        match site.node.op:
            case "read":
                return _read(site)
            case "assign":
                return self._assign(site)
            case "range":
                return _range(site)
            case _:
                return as_matrix_product(site)

    def _assign(self, site: RewriteSite) -> Sequence[Value] | None:
        attributes = site.node.attributes
        assert isinstance(attributes, AssignAttributes)
        if attributes.index:
            return None
        kind = self.resources[attributes.resource].type
        value, token = site.operands[0], site.operands[-1]
        value = _broadcast(site, value, kind.shape)
        if attributes.resource in self.isolated:
            return append_node(site, "assign", (value, token), (token.type,), attributes).results
        if attributes.mode != ":=":
            old, token = _current(site, attributes.resource, kind, token)
            value = append_node(site, UPDATES[attributes.mode], (old, value), (kind,)).result
        whole = AssignAttributes(attributes.resource, ":=")
        return append_node(site, "assign", (value, token), (token.type,), whole).results


def merge_gathers(block: Block) -> Block:
    """Gathers along several axes, one behind the other, become one: `m[i, j]` is one load."""
    return rebuild(gathers_first(block), _MergeGathers())


class _MergeGathers(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        axis = picked_axis(site.node)
        if axis is None:
            return None
        x, ids = site.operands
        inner = picked_axes(x.node) if x.node is not None else None
        merged = _merged(x.node, inner, axis, ids) if x.node is not None and inner is not None else None
        if merged is None:
            return None
        axes, operands = merged
        return append_node(site, "pick", operands, (site.node.result.type,), AxesAttributes(axes)).results


def _merged(
    inner: Node, inner_axes: Sequence[int], axis: int, ids: Value
) -> tuple[tuple[int, ...], list[Value]] | None:
    """Axes and operands of the two gathers in one; None if the outer one picks among the picked."""
    rows = dict(zip(inner_axes, inner.operands[1:], strict=True))
    position = 0
    for own in range(inner.operands[0].tensor.rank):
        width = rows[own].tensor.rank if own in rows else 1
        if own not in rows and position == axis:
            rows[own] = ids
            axes = tuple(sorted(rows))
            return axes, [inner.operands[0], *(rows[a] for a in axes)]
        position += width
    return None


def _read(site: RewriteSite) -> Sequence[Value] | None:
    known = _known(site.operands[-1])
    return None if known is None else (known, site.operands[-1])


def _current(site: RewriteSite, resource: str, kind: TensorType, token: Value) -> tuple[Value, Value]:
    """The value of the variable at this token, and the token after reading it."""
    known = _known(token)
    if known is not None:
        return known, token
    node = append_node(site, "read", (token,), (kind, token.type), ResourceAttributes(resource))
    return node.results[0], node.results[1]


def _known(token: Value) -> Value | None:
    """The value a variable has at a token, if the node that made the token says so."""
    node = token.node
    if node is None:
        return None
    if node.op == "read":
        return node.results[0]
    if node.op == "assign":
        attributes = node.attributes
        assert isinstance(attributes, AssignAttributes)
        return node.operands[0] if not attributes.index and attributes.mode == ":=" else None
    return None


def _range(site: RewriteSite) -> Sequence[Value]:
    """The step that measures the size, and the numbers up to there, which need no memory then."""
    site.output.append(site.kept())
    kind = site.node.result.tensor
    return append_node(site, "iota", (), (kind,), TypeAttributes(kind)).results


def _broadcast(site: RewriteSite, value: Value, shape: tuple[Dim, ...]) -> Value:
    if value.tensor.shape == shape:
        return value
    kind = value.tensor.with_shape(shape)
    return append_node(site, "broadcast", (value,), (kind,), ShapeAttributes(shape)).result
