"""The backward pass through `for`: a loop over the iterations, last one first.

    let y: f64 = loop y = a for i in 0..n {      let a_grad, w_grad = loop dy = y_grad, dw = 0 for j in 0..n {
      y = tanh(w * y)                              let i = n - 1 - j, y = ys[i], s = tanh(w * y)
      emit y                               ->      let ds = dy * (1 - s * s)
    }                          (ys)                dy = ds * w, dw = dw + ds * y
                                                 }

What an iteration started with, and what is not computed again, comes from stacked results (`expose` has added them). A
loop without them, being without effects, is run again up to the iteration in question. What an iteration gets from
`xs[i]` for an outer `xs` is emitted and added to its rows after the loop, all iterations at once, so that no iteration
touches all of `xs`; loops in loops leave it to the outermost one. What an outer matrix gets from products is emitted
too (`row_products`). What else outer values get is added up in each iteration, from what they have got
before the loop on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import I64, DType
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import depends_on, own_symbols
from dfc.ir.regions import ForView, for_node, for_view
from dfc.ir.rewrite import Cloner
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, ForAttributes, ScatterAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.iterations import size_of
from dfc.ops.effects.effects import is_pure
from dfc.ops.lowering.contractions import WithMatrix, with_matrix
from dfc.ops.lowering.views import picked_axis
from dfc.transforms.autodiff.expose import exported, with_stacks, zeros
from dfc.transforms.autodiff.reverse import Collected, Cotangents, Reverse, summed, unsupported
from dfc.transforms.autodiff.row_products import (
    added,
    below_each_other,
    meaningful,
    operands_of,
    picked_rows,
    products_with,
)
from dfc.transforms.autodiff.split_iterations import trip_count

FIRST = AxisAttributes(0)


@dataclass(slots=True)
class LoopReverse(Reverse):
    """The backward pass through nodes, branches and loops. `open`: the backward loops whose bodies are being made."""

    open: list[_Back] = field(default_factory=list["_Back"])

    def mark_iterations(self, node: Node) -> None:
        """A carried value is active if it starts active or becomes so in any iteration."""
        parts = for_view(node)
        initial, inside, after, results = parts.initial, parts.inside, parts.after, parts.results
        self.active.update(v for v, start in zip(inside.values, initial.values, strict=True) if start in self.active)
        self.active.update(v for inner in parts.body.nodes for v in inner.results if v in self.aliases)
        while True:
            self.mark(parts.body.nodes)
            pairs = zip(inside.values, after.values, strict=True)
            newly_active = {v for v, end in pairs if end in self.active} - self.active
            if not newly_active:
                break
            self.active |= newly_active
        self.active.update(v for v, own in zip(results.values, inside.values, strict=True) if own in self.active)
        self.active.update(v for v, own in zip(results.all, after.all, strict=True) if own in self.active)

    def iterations(
        self, node: Node, cotangents: Cotangents, builder: Builder, environment: Mapping[Value, Value]
    ) -> None:
        required = self.required_of(node)
        carried = [(i, v) for i, v in enumerate(_carried(node)) if v in self.active]
        if not required and not carried:
            return
        back = _Back(self, node, builder, environment, carried, required)
        indices = _collected_later(node, required)
        self.collected.update((inner, Collected(index)) for inner, index in indices.items())
        self.open.append(back)
        back.run(cotangents)
        self.open.pop()
        collected = [(inner, self.collected.pop(inner)) for inner in indices]
        back.emit(
            [(inner, each.index, each.copy, each.gradient) for inner, each in collected if each.copy and each.gradient]
        )
        back.finish(cotangents)


def _carried(node: Node) -> tuple[Value, ...]:
    return for_view(node).inside.values


def _collected_later(node: Node, required: Sequence[Value]) -> dict[Node, int]:
    """What is put together from all iterations: picks from outer values along an axis, products with outer matrices."""
    parts = for_view(node)
    trips, body = parts.attributes.trips, parts.body
    if trips is None:
        return {}
    outer, inside = set(required), own_symbols(body)
    candidates = {inner: 0 for inner in body.nodes if picked_axis(inner) == 0 and inner.operands[0] in outer}
    if trips.constant != 1:
        candidates.update(products_with(node, outer))
    # iterations that find out sizes have rows of their own numbers, which cannot be stacked
    return {each: index for each, index in candidates.items() if not any(depends_on(v, inside) for v in _rows_of(each))}


def _rows_of(node: Node) -> Sequence[Value]:
    return (*node.operands, *node.results)


@dataclass(slots=True)
class _Rows:
    """What every iteration emits for an outer value; `lies` says how that lies in a product, None of picked rows."""

    value: Value
    emits: tuple[Value, Value]
    lies: WithMatrix | None = None


@dataclass(slots=True)
class _Products:
    """What a matrix has got from products of inner loops: before the iteration, and by now. Apart from all else it
    gets, so that the order of sums does not depend on segments."""

    before: Value
    now: Value


@dataclass(slots=True)
class _Back:
    """One backward loop in the making."""

    reverse: LoopReverse
    node: Node
    outer: Builder
    environment: Mapping[Value, Value]
    carried: Sequence[tuple[int, Value]]
    required: Sequence[Value]
    cotangents: list[Value] = field(default_factory=list[Value])
    totals: dict[Value, Value] = field(default_factory=dict[Value, Value])
    inner: Cotangents = field(default_factory=Cotangents)
    rows: list[_Rows] = field(default_factory=list[_Rows])
    products: dict[Value, _Products] = field(default_factory=dict[Value, "_Products"])
    body: Block = field(default_factory=Block)
    total: Value | None = None
    exact: bool = False

    @property
    def parts(self) -> ForView:
        """The forward loop."""
        return for_view(self.node)

    @property
    def attributes(self) -> ForAttributes:
        return self.parts.attributes

    def run(self, cotangents: Cotangents) -> None:
        """Makes the body, up to its outputs."""
        start, stop = self._here(self.parts.start), self._here(self.parts.stop)
        trips = self.attributes.trips
        self.exact = trips is not None and size_of(start) is not None and size_of(stop) is not None
        known = self.exact and trips is not None
        self.total = self.outer.size(trips) if known and trips is not None else trip_count(self.outer, start, stop)
        number = Value(TensorType(I64), f"{self.node.name}/grad/iteration")
        self.cotangents = [Value(v.type, f"{v.name}/grad") for _, v in self.carried]
        self.totals = {v: Value(v.type, f"{v.name}/grad") for v in self.required}
        self.body.parameters = (number, *self.cotangents)
        self.inner.update(self.totals)
        builder = self._inside()
        last = builder.apply("sub", self.total, builder.constant(1, I64))
        index = builder.apply("sub", last, number)
        values = self._values_of_round(builder, index, start)
        self._enter(builder, index, cotangents)
        self.reverse.run(self.parts.body.nodes, self.inner, builder, values)

    def _inside(self) -> Builder:
        return Builder(self.body, name=self.outer.name, span=self.outer.span)

    def _here(self, value: Value) -> Value:
        return self.environment.get(value, value)

    def _values_of_round(self, builder: Builder, iteration: Value, start: Value) -> Mapping[Value, Value]:
        """The values of the iteration, from the stacks and computed again."""
        region = self.parts.body
        dtype = start.tensor.dtype
        assert isinstance(dtype, DType)
        index = builder.apply("add", start, builder.cast(iteration, dtype))
        own = {*region.parameters, *(v for inner in region.nodes for v in inner.results)}
        # the copy of an outer iteration has a copy of this whole loop inside, whose values are of no use here
        cloner = Cloner(
            {old: new for old, new in self.environment.items() if old not in own}, rename="{}/grad/again".format
        )
        cloner.values[self.parts.index] = index
        stacks = exported(self.node, region) if self.attributes.trips is not None else {}
        if all(v in stacks for v in _carried(self.node)):
            for inside, stack in stacks.items():
                if inside in own:
                    cloner.values[inside] = builder.apply("gather", self._here(stack), iteration, attributes=FIRST)
        elif is_pure(self.node):
            cloner.values.update(zip(_carried(self.node), self._again(builder, start, index), strict=True))
        else:
            raise unsupported(self.node)
        again = [n for n in region.nodes if is_pure(n) and not all(v in cloner.values for v in n.results)]
        cloner.inline(again, self.body.nodes)
        return cloner.values

    def _again(self, builder: Builder, start: Value, index: Value) -> Sequence[Value]:
        """What the iteration started with, from all iterations before it."""
        region = Cloner(self.environment, rename="{}/grad/again".format).block(self.parts.body)
        region.outputs = region.outputs[: len(self.parts.after.values)]
        initial = [self._here(v) for v in self.parts.initial.values]
        return builder.append(for_node(start, index, initial, region, origin=builder)).results

    def _enter(self, builder: Builder, index: Value, cotangents: Cotangents) -> None:
        """Cotangents of what the iteration hands on and of what it emits."""
        after, results = self.parts.after, self.parts.results
        for (position, _), cotangent in zip(self.carried, self.cotangents, strict=True):
            self._add(builder, after.values[position], cotangent)
        for inside, result in zip(after.emitted, results.emitted, strict=True):
            if result in cotangents and inside in self.reverse.active:
                row = builder.apply("gather", cotangents[result], index, attributes=FIRST)
                self._add(builder, inside, row)

    def _add(self, builder: Builder, value: Value, cotangent: Value) -> None:
        if value in self.reverse.active:
            self.inner[value] = summed(builder, self.inner.get(value), cotangent, value)

    # ------------------------------------------------------------- closing --

    def emit(self, collected: Sequence[tuple[Node, int, Node, Value]]) -> None:
        """What the iteration emits for outer values, besides what inner loops have left to it."""
        builder = self._inside()
        for node, index, copy, cotangent in collected:
            value = node.operands[index]
            lies = with_matrix(node, index)
            if lies is None:
                self.rows.append(_Rows(value, picked_rows(builder, copy, cotangent)))
            else:
                self.rows.append(_Rows(value, operands_of(builder, copy, cotangent, index, lies), lies))

    def finish(self, cotangents: Cotangents) -> None:
        """Closes the body, adds the loop, and hands on what it found."""
        outer = self.outer
        outer.name, outer.span = f"{self.node.name}/grad", self.node.span
        builder = self._inside()
        dense = [v for v in self.required if self.inner[v] is not self.totals[v]]
        sums = list(self.products.values())
        self.body.parameters = (*self.body.parameters, *(self.totals[v] for v in dense), *(s.before for s in sums))
        body_cotangents = [self.inner[v] if v in self.inner else zeros(builder, v) for _, v in self.carried]
        emits = [v for rows in self.rows for v in rows.emits]
        self.body.outputs = (*body_cotangents, *(self.inner[v] for v in dense), *(s.now for s in sums), *emits)
        results = self.parts.results.values
        starts = [cotangents[results[i]] if results[i] in cotangents else zeros(outer, v) for i, v in self.carried]
        starts += [cotangents[v] if v in cotangents else zeros(outer, v) for v in dense]
        starts += [self._products_before(v) for v in self.products]
        assert self.total is not None
        first = outer.constant(0, I64)
        node = for_node(first, self.total, starts, self.body, trips=self.attributes.trips, origin=outer)
        node = outer.append(with_stacks(node))
        self._hand_on(cotangents, node, dense)

    def _hand_on(self, cotangents: Cotangents, node: Node, dense: Sequence[Value]) -> None:
        carries = [self.parts.initial.values[i] for i, _ in self.carried]
        offset = len(carries) + len(dense)
        cotangents.update(zip(dense, node.results[len(carries) : offset], strict=True))
        self.reverse.accumulate(carries, node.results[: len(carries)], cotangents, self.outer)
        totals = dict(zip(self.products, node.results[offset:], strict=False))
        offset += len(totals)
        stacks = iter(node.results[offset : offset + 2 * len(self.rows)])
        factors: dict[Value, list[tuple[WithMatrix, Value, Value]]] = {}
        for rows in self.rows:
            pair = next(stacks), next(stacks)
            if rows.lies is not None:
                factors.setdefault(rows.value, []).append((rows.lies, *pair))
            else:
                self._accumulate_at(cotangents, rows.value, self._as_one(pair))
        for value, pairs in factors.items():
            assert self.total is not None
            total = totals[value] if value in totals else self._products_before(value)
            totals[value] = added(self.outer, total, pairs, self.total, exact=self.exact)
        self._leave_products(cotangents, totals)

    def _products_before(self, value: Value) -> Value:
        """What products have given to a matrix so far: an outer loop carries it."""
        parent = self._parent()
        if parent is None or value not in parent.totals:
            return zeros(self.outer, value)
        if value not in parent.products:
            before = Value(value.type, f"{value.name}/grad")
            parent.products[value] = _Products(before, before)
        return parent.products[value].now

    def _leave_products(self, cotangents: Cotangents, totals: Mapping[Value, Value]) -> None:
        parent = self._parent()
        for value, total in totals.items():
            if parent is not None and value in parent.products:
                parent.products[value].now = total
            else:
                self.reverse.accumulate([value], [total], cotangents, self.outer)

    def _parent(self) -> _Back | None:
        """The loop right around this one, whose body is being made."""
        parent = self.reverse.open[-1] if self.reverse.open else None
        return parent if parent is not None and self.outer.block is parent.body else None

    def _as_one(self, pair: tuple[Value, Value]) -> tuple[Value, Value]:
        """The rows of all iterations below each other; those without a meaning add nothing to the first row."""
        assert self.total is not None
        if not self.exact:
            pair = meaningful(self.outer, pair[0], self.total), meaningful(self.outer, pair[1], self.total)
        return below_each_other(self.outer, *pair)

    def _accumulate_at(self, cotangents: Cotangents, value: Value, pair: tuple[Value, Value]) -> None:
        """An outer loop scatters the rows of all its iterations at once."""
        parent = self._parent()
        if parent is not None and parent.attributes.trips is not None and value in parent.totals:
            parent.rows.append(_Rows(value, pair))
            return
        attributes = ScatterAttributes(0, value.tensor.shape)
        whole = self.outer.apply("scatter_add", *pair, attributes=attributes)
        self.reverse.accumulate([value], [whole], cotangents, self.outer)
