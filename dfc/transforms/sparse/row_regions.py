"""Rows out of branches and loops: a sparse result of a region becomes results for its numbers and its rows.

    let g: f32[N, W] = if c {                         let ids: i32[B], rows: f32[B, W] = if c {
      yield graph.scatter_add(ids, rows, ..)            yield ids, rows
    } else { yield zeros }                     ->     } else { yield zeros, zeros }
                                                      let g: f32[N, W] = graph.scatter_add(ids, rows, ..)

A `for` whose carried value only adds up stacks what each iteration adds. The dense results stay; `dce` takes them if
nobody uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured_in
from dfc.ir.regions import Flow, carried, controls, flows, for_view, view, with_more_results, with_outputs
from dfc.ir.symbols import symbols_of
from dfc.ops.builder import Builder
from dfc.ops.control.iterations import size_of
from dfc.ops.rules.row_sparsity import Sparse, Term
from dfc.transforms.autodiff.expose import zeros

Known = Mapping[Value, Sparse]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The node with more results, what stands for the old ones, and what is known of these."""

    node: Node
    results: list[Value]
    known: dict[Value, Sparse]


def totals(node: Node, region: Block) -> dict[Value, Sparse]:
    """What a `for` carries may be a total to which iterations add."""
    if node.op != "for":
        return {}
    return {value: Sparse((), value) for value in for_view(node, regions=(region,)).inside.values}


def out_of_branches(node: Node, known: Known, b: Builder) -> Rewritten | None:
    groups: dict[int, list[Sparse]] = {}
    inner = _measured_inside(node)
    for flow in flows(view(node)):
        position, result = flow.number, flow.result
        inside = [known.get(value) for value in flow.outputs]
        plain = [each for each in inside if each is not None and each.base is None]
        has_rows = not result.is_token and all((size.constant or 0) > 0 for size in result.tensor.shape)
        if not has_rows or len(plain) < len(inside) or all(not each.terms for each in plain):
            continue
        if not inner & {symbol for each in plain for symbol in _sizes(each)}:
            groups[position] = plain
    if not groups:
        return None
    sides = [(number, term) for each in groups.values() for number, side in enumerate(each) for term in side.terms]
    parts = [(number, value) for number, term in sides for value in (*term.ids, term.rows)]
    regions = [_branch(node, number, parts) for number in range(len(node.regions))]
    new, after, extra = with_more_results(node, node.operands, regions, len(parts))
    b.block.nodes.append(new)
    handed = iter(extra)
    terms = {
        after[position]: Sparse(tuple(_replaced(term, handed.__next__) for side in each for term in side.terms))
        for position, each in groups.items()
    }
    return Rewritten(new, list(after), terms)


def _measured_inside(node: Node) -> set[Symbol]:
    """The sizes that regions find out: nothing outside of them can have such a size."""
    return {symbol for region in node.regions for symbol in measured_in(region)}


def _sizes(x: Sparse) -> set[Symbol]:
    symbols: set[Symbol] = set()
    for term in x.terms:
        symbols |= symbols_of(term.index).union(*(symbols_of(value.type) for value in (*term.ids, term.rows)))
    return symbols


def _branch(node: Node, number: int, parts: Sequence[tuple[int, Value]]) -> Block:
    """A branch that also yields its own rows, and zeros for those of the others."""
    region = node.regions[number]
    block = Block(region.parameters, region.nodes)
    builder = Builder(block, name=f"{node.name}/none", span=node.span)
    extra = [value if owner == number else zeros(builder, value) for owner, value in parts]
    return with_outputs(Block(block.parameters, block.nodes, region.outputs), extra)


def _replaced(term: Term, following: Callable[[], Value]) -> Term:
    """The term over the results that hand out its parts."""
    index = tuple(following() if isinstance(selector, Value) else selector for selector in term.index)
    return Term(index, following(), term.distinct)


# ------------------------------------------------------------------ loops --


def out_of_loops(node: Node, known: Known, b: Builder) -> Rewritten | None:
    parts = for_view(node)
    if parts.attributes.trips is None or any(size_of(bound) is None for bound in controls(parts)):
        return None  # there may be fewer iterations than stacked rows
    accumulated = {flow.number: pair for flow in carried(parts) if (pair := _added(node, flow, known))}
    if not accumulated:
        return None
    rows = [value for _, added in accumulated.values() for term in added.terms for value in (*term.ids, term.rows)]
    new, after, extra = with_more_results(node, node.operands, [with_outputs(parts.body, rows)], len(rows))
    b.block.nodes.append(new)
    handed = iter(extra)
    terms: dict[Value, Sparse] = {}
    for position, (start, added) in accumulated.items():
        stacked = [_stacked(b, _replaced(term, handed.__next__), term) for term in added.terms]
        terms[after[position]] = Sparse((*start.terms, *stacked))
    return Rewritten(new, list(after), terms)


def _added(node: Node, flow: Flow, known: Known) -> tuple[Sparse, Sparse] | None:
    """What a carried value starts with and what an iteration adds to it, if both are sparse."""
    assert flow.initial is not None
    start, end = known.get(flow.initial), known.get(flow.outputs[0])
    if start is None or end is None or start.base is not None or not end.terms:
        return None
    is_total = end.base is flow.parameters[0] and all(len(term.ids) <= 1 for term in end.terms)
    is_total = is_total and not _measured_inside(node) & _sizes(end)
    return (start, end) if is_total else None


def _stacked(b: Builder, stacks: Term, inside: Term) -> Term:
    """All iterations as one term: the iterations are one more axis of the numbers, or are summed if there are none."""
    if not inside.ids:
        return Term(stacks.index, b.sum(stacks.rows, (0,)), inside.distinct)
    axis = next(number for number, selector in enumerate(inside.index) if isinstance(selector, Value))
    groups = inside.groups()
    front = sum(len(group) for group in groups[:axis])
    rank = stacks.rows.tensor.rank
    order = (*range(1, front + 1), 0, *range(front + 1, rank))
    rows = b.transpose(stacks.rows, order) if front else stacks.rows
    return Term(stacks.index, rows, distinct=False)
