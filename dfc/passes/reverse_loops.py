"""The way back through `for`: a loop over the rounds, last one first.

    let y: f64 = loop y = a for i in 0..n {      let a_grad, w_grad = loop dy = y_grad, dw = 0 for j in 0..n {
      y = tanh(w * y)                              let i = n - 1 - j, y = ys[i], s = tanh(w * y)
      emit y                               ->      let ds = dy * (1 - s * s)
    }                          (ys)                dy = ds * w, dw = dw + ds * y
                                                 }

What a round started with, and what is not computed again, comes from stacked results (`expose` has added them). A loop
without them, being without effects, is run again up to the round in question. What a round gets from `xs[i]` for an
outer `xs` is emitted and added to its place after the loop, all rounds at once, so that no round touches all of `xs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dfc.ir.dtypes import I64, DType
from dfc.ir.graph import Block, Node, Value
from dfc.ir.rewrite import Cloner
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes, ForAttributes, ScatterAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects import is_pure
from dfc.ops.rounds import size_of
from dfc.passes.expose import exported, with_stacks, zeros
from dfc.passes.reverse import Cotangents, Reverse, summed, unsupported
from dfc.passes.split_rounds import rounds_to_run

FIRST = AxisAttributes(0)


@dataclass(slots=True)
class LoopReverse(Reverse):
    """The way back through nodes, branches and loops."""

    def mark_rounds(self, node: Node) -> None:
        """A carried value is active if it starts active or becomes so in any round."""
        (region,) = node.regions
        carried = _carried(node)
        starts = node.operands[2 : 2 + len(carried)]
        self.active.update(v for v, start in zip(carried, starts, strict=True) if start in self.active)
        self.active.update(v for inner in region.nodes for v in inner.results if v in self.aliases)
        while True:
            self.mark(region.nodes)
            pairs = zip(carried, region.outputs[: len(carried)], strict=True)
            found = {v for v, after in pairs if after in self.active} - self.active
            if not found:
                break
            self.active |= found
        self.active.update(v for v, inside in zip(node.results, carried, strict=False) if inside in self.active)
        self.active.update(v for v, inside in zip(node.results, region.outputs, strict=True) if inside in self.active)

    def rounds(self, node: Node, cotangents: Cotangents, builder: Builder, environment: Mapping[Value, Value]) -> None:
        wanted = self.wanted_of(node)
        carried = [(i, v) for i, v in enumerate(_carried(node)) if v in self.active]
        if not wanted and not carried:
            return
        back = _Back(self, node, builder, environment, carried, wanted)
        gathered = _gathers(node, wanted)
        self.collected.update(dict.fromkeys(gathered))
        back.run(cotangents)
        found = [(gather, self.collected.pop(gather)) for gather in gathered]
        back.finish(cotangents, [(gather, *met) for gather, met in found if met is not None])


def _carried(node: Node) -> tuple[Value, ...]:
    assert isinstance(node.attributes, ForAttributes)
    return node.regions[0].parameters[1 : 1 + node.attributes.carries]


def _gathers(node: Node, wanted: Sequence[Value]) -> list[Node]:
    """Picks from outer values along their first axis. Only if all stacked rows are written: bounds that are sizes."""
    if size_of(node.operands[0]) is None or size_of(node.operands[1]) is None or not _trips(node):
        return []
    outer = set(wanted)
    return [
        inner
        for inner in node.regions[0].nodes
        if inner.op == "gather" and inner.operands[0] in outer and inner.attributes == FIRST
    ]


def _trips(node: Node) -> bool:
    assert isinstance(node.attributes, ForAttributes)
    return node.attributes.trips is not None


@dataclass(slots=True)
class _Back:
    """One backward loop in the making."""

    reverse: LoopReverse
    node: Node
    outer: Builder
    environment: Mapping[Value, Value]
    carried: Sequence[tuple[int, Value]]
    wanted: Sequence[Value]
    slopes: list[Value] = field(default_factory=list[Value])
    inner: Cotangents = field(default_factory=Cotangents)
    body: Block = field(default_factory=Block)
    total: Value | None = None

    @property
    def attributes(self) -> ForAttributes:
        assert isinstance(self.node.attributes, ForAttributes)
        return self.node.attributes

    def run(self, cotangents: Cotangents) -> None:
        """Makes the body, up to its outputs."""
        start, stop = (self._here(v) for v in self.node.operands[:2])
        known = self.attributes.trips is not None and size_of(start) is not None and size_of(stop) is not None
        trips = self.attributes.trips
        self.total = self.outer.size(trips) if known and trips is not None else rounds_to_run(self.outer, start, stop)
        number = Value(TensorType(I64), f"{self.node.name}/grad/round")
        self.slopes = [Value(v.type, f"{v.name}/grad") for _, v in self.carried]
        self.body.parameters = (number, *self.slopes)
        builder = Builder(self.body, name=self.outer.name, span=self.outer.span)
        last = builder.apply("sub", self.total, builder.constant(1, I64))
        place = builder.apply("sub", last, number)
        values = self._values_of_round(builder, place, start)
        self._enter(builder, place, cotangents)
        self.reverse.run(self.node.regions[0].nodes, self.inner, builder, values)

    def _here(self, value: Value) -> Value:
        return self.environment.get(value, value)

    def _values_of_round(self, builder: Builder, place: Value, start: Value) -> Mapping[Value, Value]:
        """The values of the round, from the stacks and computed again."""
        (region,) = self.node.regions
        dtype = start.tensor.dtype
        assert isinstance(dtype, DType)
        index = builder.apply("add", start, builder.cast(place, dtype))
        own = {*region.parameters, *(v for inner in region.nodes for v in inner.results)}
        # the copy of an outer round has a copy of this whole loop inside, whose values are of no use here
        cloner = Cloner(
            {old: new for old, new in self.environment.items() if old not in own}, rename="{}/grad/again".format
        )
        cloner.values[region.parameters[0]] = index
        stacks = exported(self.node, region) if self.attributes.trips is not None else {}
        if all(v in stacks for v in _carried(self.node)):
            for inside, stack in stacks.items():
                if inside in own:
                    cloner.values[inside] = builder.apply("gather", self._here(stack), place, attributes=FIRST)
        elif is_pure(self.node):
            cloner.values.update(zip(_carried(self.node), self._again(builder, start, index), strict=True))
        else:
            raise unsupported(self.node)
        again = [n for n in region.nodes if is_pure(n) and not all(v in cloner.values for v in n.results)]
        cloner.inline(again, self.body.nodes)
        return cloner.values

    def _again(self, builder: Builder, start: Value, index: Value) -> Sequence[Value]:
        """What the round started with, from all rounds before it."""
        count = self.attributes.carries
        region = Cloner(self.environment, rename="{}/grad/again".format).block(self.node.regions[0])
        region.outputs = region.outputs[:count]
        operands = (start, index, *(self._here(v) for v in self.node.operands[2 : 2 + count]))
        types = [v.type for v in operands[2:]]
        return builder.add("for", operands, types, ForAttributes(count), (region,)).results

    def _enter(self, builder: Builder, place: Value, cotangents: Cotangents) -> None:
        """Cotangents of what the round hands on and of what it emits."""
        outputs = self.node.regions[0].outputs
        for (position, _), slope in zip(self.carried, self.slopes, strict=True):
            self._add(builder, outputs[position], slope)
        count = self.attributes.carries
        for inside, result in zip(outputs[count:], self.node.results[count:], strict=True):
            if result in cotangents and inside in self.reverse.active:
                row = builder.apply("gather", cotangents[result], place, attributes=FIRST)
                self._add(builder, inside, row)

    def _add(self, builder: Builder, value: Value, cotangent: Value) -> None:
        if value in self.reverse.active:
            self.inner[value] = summed(builder, self.inner.get(value), cotangent, value)

    def finish(self, cotangents: Cotangents, rows: Sequence[tuple[Node, Node, Value]]) -> None:
        """Closes the body, adds the loop, and hands on what it found."""
        outer, attributes = self.outer, self.attributes
        outer.name, outer.span = f"{self.node.name}/grad", self.node.span
        builder = Builder(self.body, name=outer.name, span=outer.span)
        dense = [v for v in self.wanted if v in self.inner]
        totals = [Value(v.type, f"{v.name}/grad") for v in dense]
        self.body.parameters = (*self.body.parameters, *totals)
        slopes = [self.inner[v] if v in self.inner else zeros(builder, v) for _, v in self.carried]
        sums = [builder.apply("add", total, self.inner[v]) for v, total in zip(dense, totals, strict=True)]
        emits = [v for _, copy, slope in rows for v in (copy.operands[1], slope)]
        self.body.outputs = (*slopes, *sums, *emits)
        count = attributes.carries
        results = self.node.results[:count]
        starts = [cotangents[results[i]] if results[i] in cotangents else zeros(outer, v) for i, v in self.carried]
        starts += [zeros(outer, v) for v in dense]
        trips = attributes.trips
        stacked = [v.tensor.with_shape((trips, *v.tensor.shape)) for v in emits if trips is not None]
        assert self.total is not None
        node = Node(
            "for",
            (outer.constant(0, I64), self.total, *starts),
            [*(v.type for v in starts), *stacked],
            attributes=ForAttributes(len(starts), trips),
            regions=(self.body,),
            name=outer.name,
            span=outer.span,
        )
        node = with_stacks(node)
        outer.block.nodes.append(node)
        self._hand_on(cotangents, node, dense, rows)

    def _hand_on(
        self, cotangents: Cotangents, node: Node, dense: Sequence[Value], rows: Sequence[tuple[Node, Node, Value]]
    ) -> None:
        carries = [self.node.operands[2 + i] for i, _ in self.carried]
        self.reverse.accumulate(carries, node.results[: len(carries)], cotangents, self.outer)
        found = len(carries) + len(dense)
        self.reverse.accumulate(dense, node.results[len(carries) : found], cotangents, self.outer)
        for number, (gather, _, _) in enumerate(rows):
            ids, slopes = node.results[found + 2 * number : found + 2 * number + 2]
            picked_from = gather.operands[0]
            attributes = ScatterAttributes(0, picked_from.tensor.shape)
            whole = self.outer.apply("scatter_add", ids, slopes, attributes=attributes)
            self.reverse.accumulate([picked_from], [whole], cotangents, self.outer)
