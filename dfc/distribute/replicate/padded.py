"""An entry for batches that are filled up: sums over the batch leave out what is behind the rows that count.

    entry train[B](x: f32[B, 4]) {            entry train[B](x: f32[B, 4], valid: i64) {
      let m = mean(x, axis = 0)        ->       let counts = iota(B) < valid
      ..                                        let m = sum(where(counts, x, 0), axis = 0) / valid

`B` is the size of the filled batch, and `valid` says how many of its rows count; the others are copies of the last of
these. Where the program asks for the size of the batch it gets `valid`, and positions behind are that of the last row,
so that random numbers are those of the short batch, and nothing happens in a copy that does not happen in its row.

Assumes an entry after all passes. Guarantees the results, state and faults of the short batch; what a result has for
each row stands in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.replicate.model import Piece
from dfc.distribute.replicate.short import Rows, rows_of
from dfc.ir.dims import ONE, Compound, Dim, Symbol, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Entry, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ir.types import TensorType
from dfc.ops.attributes import AssignAttributes, DimAttributes, TypeAttributes
from dfc.ops.builder import Builder
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.sharding import Cutting, Split
from dfc.ops.sizes.equality import sizes_compared
from dfc.transforms.batch.draws import numbered

VALID = "valid"
_OPS = {"//": "floordiv", "%": "mod", "min": "minimum", "max": "maximum"}


@dataclass(frozen=True, slots=True)
class Padded:
    """A graph with one entry for batches that are filled up. `valid` is the parameter that says how many rows count;
    `feeds` and `results` say along which axes rows are, by name."""

    graph: Graph
    valid: str
    feeds: Mapping[str, Piece]
    results: Mapping[str, Piece]


def padded(graph: Graph, name: str, symbol: Symbol, blocks: int) -> Padded:
    """The graph with one entry for batches that are filled up to a multiple of `blocks`; raises `CannotPadError`."""
    cutting = Cutting(symbol, blocks)
    with sizes_compared():
        entry = numbered(graph.entries[name], cutting)
        rows = rows_of(entry, cutting)
        changed, parameter = _masked(entry, rows)
    return Padded(
        replace(graph, entries={**graph.entries, name: changed}),
        parameter,
        _pieces(rows, zip(entry.parameter_names, entry.block.parameters, strict=False)),
        _pieces(rows, zip(entry.result_names, entry.block.outputs, strict=False)),
    )


def _pieces(rows: Rows, values: Iterable[tuple[str, Value]]) -> dict[str, Piece]:
    states = ((name, rows.states.get(value)) for name, value in values)
    return {name: Piece(state.axis, state.outer or ONE) for name, state in states if state is not None}


def _masked(entry: Entry, rows: Rows) -> tuple[Entry, str]:
    parameter = VALID
    while parameter in {*entry.parameter_names, *map(str, entry.dims)}:
        parameter += "_"
    valid = Value(TensorType(I64), f"{entry.name}/{parameter}")
    block = rebuild(entry.block, _Masking(rows, valid))
    count = len(entry.parameter_names)
    parameters = (*block.parameters[:count], valid, *block.parameters[count:])
    block = type(block)(parameters, block.nodes, block.outputs)
    docs = (*entry.parameter_docs, "") if entry.parameter_docs else ()
    names = (*entry.parameter_names, parameter)
    block = name_nodes(block, entry.block)
    return replace(entry, block=block, parameter_names=names, parameter_docs=docs), parameter


class _Masking(Pass):
    def __init__(self, rows: Rows, valid: Value) -> None:
        self._rows = rows
        self._valid = valid

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node, symbol = site.node, self._rows.cutting.symbol
        output = Builder.appending(site.output, name=node.name, span=node.span)
        if isinstance(node.attributes, DimAttributes) and symbol in node.attributes.size.symbols():
            return (self._number(output, node.attributes.size),)
        rows_at = rules_of(node).rows_at
        if rows_at is not None and node.result in self._rows.states:
            return (rows_at(output, node, self._positions(output, node), 0),)
        if node in self._rows.summed:
            return (self._assigned if node.op == "assign" else self._sum)(output, site)
        return None

    # ---------------------------------------------------------------- sizes --

    def _number(self, output: Builder, size: Dim) -> Value:
        """A size of the short batch."""
        total: Value | None = None
        for monomial, factor in size.terms:
            term = output.constant(factor, I64)
            for atom in monomial:
                term = output.apply("mul", term, self._atom(output, atom))
            total = term if total is None else output.apply("add", total, term)
        assert total is not None
        return total

    def _atom(self, output: Builder, atom: Symbol | Compound) -> Value:
        if atom == self._rows.cutting.symbol:
            return self._valid
        if isinstance(atom, Symbol):
            return output.size(dim(atom))
        left, right = self._number(output, atom.left), self._number(output, atom.right)
        if atom.function == "ceil_div":
            return output.apply("neg", output.apply("floordiv", output.apply("neg", left), right))
        return output.apply(_OPS[atom.function], left, right)

    # ---------------------------------------------------------------- rows --

    def _positions(self, output: Builder, node: Node) -> Value:
        """Positions, those behind the last row that counts as in that row."""
        (size,) = node.result.tensor.shape
        per_row = self._rows.per_row(size, self._rows.states[node.result])
        assert per_row is not None
        positions = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        last = output.apply("sub", self._valid, output.constant(1, I64))
        if per_row == ONE:
            indices = output.apply("minimum", positions, last)
        else:
            run = output.size(per_row)
            row = output.apply("minimum", output.apply("floordiv", positions, run), last)
            indices = output.apply("add", output.apply("mul", row, run), output.apply("mod", positions, run))
        return indices

    def _counts(self, output: Builder, shape: Sequence[Dim], state: Split) -> Value:
        """Whether each element belongs to a row that counts, with sizes of 1 along the other axes."""
        size = shape[state.axis]
        per_row = self._rows.per_row(size, state)
        assert per_row is not None
        row = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        if per_row != ONE:
            row = output.apply("floordiv", row, output.size(per_row))
        if (state.outer or ONE) != ONE:
            row = output.apply("mod", row, output.size(dim(self._rows.cutting.symbol)))
        counts = output.apply("less", row, self._valid)
        return output.reshape(counts, [size if axis == state.axis else ONE for axis in range(len(shape))])

    def _kept(self, output: Builder, old: Value, new: Value, other: int = 0) -> Value:
        """A value with another number in the place of rows that do not count."""
        state = self._rows.states.get(old)
        if state is None:
            return new
        counts = self._counts(output, old.tensor.shape, state)
        return output.apply("select", counts, new, output.scalar_like(other, new))

    def _assigned(self, output: Builder, site: RewriteSite) -> Sequence[Value]:
        """Rows of a variable that are set get what they get from the last row that counts once more; what is added to
        others is nothing."""
        node, (value, *others) = site.node, site.operands
        assert isinstance(node.attributes, AssignAttributes)
        if node.attributes.mode != ":=":
            neutral = 0 if node.attributes.mode in ("+=", "-=") else 1
            value = self._kept(output, node.operands[0], value, neutral)
        types = [result.type for result in node.results]
        return output.add(node.op, [value, *others], types, node.attributes).results

    def _sum(self, output: Builder, site: RewriteSite) -> Sequence[Value]:
        node = site.node
        filling = rules_of(node).filling
        assert filling is not None and filling.neutral is not None, node
        operands = [
            self._kept(output, old, new, filling.neutral)
            if filling.operands is None or number in filling.operands
            else new
            for number, (old, new) in enumerate(zip(node.operands, site.operands, strict=True))
        ]
        if filling.divided is not None:
            return (filling.divided(output, node, operands[0], lambda size: self._number(output, size)),)
        return (output.apply(node.op, *operands, attributes=node.attributes),)
