"""sparse: updates of variables by gradients that are zero but for some rows touch these rows only.

    let g: f32[N, W] = graph.scatter_add(ids, rows, ..)
    table -= rate * g                                     ->      table[ids, 0:W] -= rate * rows

Follows what the rules of ops know (`Sparse`) through the graph: out of branches, and out of loops that add up, as
results (`ids` and rows, for loops stacked). Where a whole variable is assigned `:= += -=` such a value, each term
becomes an assignment through its index, in the order of the terms; the dense gradient stays only if somebody else uses
it. Where there is such an assignment, sums of all elements (norms for clipping) are sums over rows, too.

Assumes simplified nodes. Rows with the same number are subtracted one after the other, in the order of the index: the
same numbers as the dense update up to rounding. Rows that nobody read stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dfc.ir.dims import Dim
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ir.types import TokenType
from dfc.ops.attributes import AssignAttributes, OperandSelector, RangeSelector, ResourceAttributes
from dfc.ops.builder import Builder
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.row_factors import rows_of
from dfc.ops.rules.row_sparsity import Sparse, Term
from dfc.transforms.scalar.dce import dce_block
from dfc.transforms.sparse.row_regions import Rewritten, out_of_branches, out_of_loops, totals

NAME = "sparse"
_REGIONS: dict[str, Callable[[Node, Mapping[Value, Sparse], Builder], Rewritten | None]] = {
    "if": out_of_branches,
    "for": out_of_loops,
}


class _Sparse(Pass):
    """`changed` says whether an assignment was rewritten; else all that was made is unused.

    `values` says what old values have become: what was assigned is read back from the variable by those below.
    """

    def __init__(self, shapes: Mapping[str, tuple[Dim, ...]], values: dict[Value, Value]) -> None:
        self.changed = False
        self._shapes = shapes
        self._values = values
        self._known: dict[Value, Sparse] = {}
        self._before: list[dict[Value, Value]] = []

    def enter(self, block: Block) -> None:
        self._before.append({})

    def leave(self, block: Block) -> None:
        """What was assigned in a region is not read back outside of it."""
        before = self._before.pop()
        if self._before:
            self._values.update(before)

    def descend(self, node: Node, operands: Sequence[Value], region: Block) -> None:
        del operands
        self._known.update(totals(node, region))

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        builder = Builder.appending(site.output, name=f"{site.node.name}/rows", span=site.node.span)
        if site.node.op == "assign":
            return self._assign(site, builder)
        if site.node.op in _REGIONS:
            rewritten = _REGIONS[site.node.op](site.kept(), self._known, builder)
            if rewritten is None:
                return None
            self._known.update(rewritten.known)
            return rewritten.results
        if len(site.node.results) != 1 + (site.node.op == "read") or site.regions:
            return None
        kept = site.kept()
        site.output.append(kept)
        sparse = rows_of(builder, kept, [self._known.get(value) for value in kept.operands])
        if sparse is not None:
            self._known[kept.result] = sparse
        total = self._total(kept, builder)
        return kept.results if total is None else [total]

    def _total(self, node: Node, builder: Builder) -> Value | None:
        """The result itself, if its op makes it of the rows of its operand."""
        rule = rules_of(node).row_total
        x = self._known.get(node.operands[0]) if rule is not None else None
        return None if rule is None or x is None else rule(builder, node, x)

    def _assign(self, site: RewriteSite, builder: Builder) -> Sequence[Value] | None:
        attributes = site.node.attributes
        assert isinstance(attributes, AssignAttributes)
        value, token = site.operands[0], site.operands[-1]
        sparse = self._known.get(value)
        if sparse is None or attributes.index or value.tensor.shape != self._shapes[attributes.resource]:
            return None
        mode = attributes.mode
        if mode == ":=" and _is_present_value(sparse.base, attributes.resource, token):
            mode = "+="
        elif mode not in ("+=", "-=") or sparse.base is not None:
            return None
        self.changed = True
        builder.name = site.node.name
        for term in sparse.terms:
            token = _update(builder, term, AssignAttributes(attributes.resource, mode), token)
        if attributes.mode == ":=":
            token = self._read_back(site.node.operands[0], attributes.resource, token, builder)
        return [token]

    def _read_back(self, assigned: Value, resource: str, token: Value, b: Builder) -> Value:
        """Those who use the assigned value below find it in the variable."""
        reader = b.add("read", (token,), (assigned.type, token.type), ResourceAttributes(resource))
        self._before[-1].setdefault(assigned, self._values.get(assigned, assigned))
        self._values[assigned] = reader.results[0]
        self._known[reader.results[0]] = Sparse((), reader.results[0])
        return reader.results[1]


def _is_present_value(base: Value | None, resource: str, token: Value) -> bool:
    """Whether `base` is a read of the variable that sees what the assignment overwrites."""
    if base is None or base.node is None or base.node.op != "read":
        return False
    while (reader := token.node) is not None and reader.op == "read":
        if reader is base.node:
            return True
        (token,) = (v for v in reader.operands if v.is_token)
    return False


def _update(b: Builder, term: Term, whole: AssignAttributes, token: Value) -> Value:
    """Assigns the rows through the index."""
    ids: list[Value] = []
    index: list[RangeSelector | OperandSelector] = []
    for selector in term.index:
        if isinstance(selector, Value):
            index.append(OperandSelector(len(ids)))
            ids.append(selector)
        else:
            index.append(selector)
    attributes = AssignAttributes(whole.resource, whole.mode, tuple(index))
    return b.add("assign", (term.rows, *ids, token), (TokenType(whole.resource),), attributes).result


def sparse(graph: Graph) -> Graph:
    shapes = {name: resource.type.shape for name, resource in graph.resources.items()}

    def change(block: Block) -> Block:
        values: dict[Value, Value] = {}
        rewriting = _Sparse(shapes, values)
        after = rebuild(block, rewriting, values)
        return name_nodes(dce_block(after), block) if rewriting.changed else block

    return map_blocks(graph, change)
