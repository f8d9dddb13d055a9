"""How values grow with the batch: whether a gradient is a mean over it or a sum.

    let loss = mean(losses)      0          let g = 1 / B        -1
    let loss = sum(losses)       1          let dw = x^T @ dy    0 for the gradient of a mean, 1 for that of a sum

What degrees are is in `dfc.ops.rules.degrees`, those that an op gives are in its record; here is the way through an
entry, its loops and branches, and which of its values are judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.measured import measured
from dfc.ir.regions import ForView, WhileView, flows, for_view, view, while_view
from dfc.ops import registry
from dfc.ops.attributes import AssignAttributes
from dfc.ops.lowering.forms import Reduce
from dfc.ops.rules.degrees import ANY, FLAT, Degree, MaybeDegree, Sizes, more, same
from dfc.ops.rules.lookup import degree_of, is_elementwise, rules_of
from dfc.ops.rules.sharding import Cutting, Split
from dfc.transforms.batch.analysis import BlockSplits
from dfc.transforms.batch.row_uses import RowUses


def degrees(entry: Entry, cutting: Cutting) -> dict[Value, MaybeDegree]:
    """The degree of every value of an entry."""
    search = _Search(cutting)
    search.nodes(entry.block.nodes)
    return search.degrees


def gradients(
    entry: Entry, splits: BlockSplits, trained: frozenset[str], rows: RowUses, degrees: dict[Value, MaybeDegree]
) -> dict[Value, MaybeDegree]:
    """What goes into a trained variable and is summed over the batch last, or is still to be (sums over blocks, rows of
    examples, and what is summed where the whole batch is), with the degrees of these sums. `degrees` has the degrees of
    values. Behind rows whose degree is unclear all is: what they are made of need not be a gradient."""
    pending: list[tuple[Value, bool]] = []
    carried: dict[Value, tuple[Value, ...]] = {}
    for node in walk.nodes(entry.block):
        if isinstance(node.attributes, AssignAttributes) and node.attributes.resource in trained:
            pending += [(value, True) for value in node.operands]
        carried.update(_carried(node))
    judged: dict[Value, MaybeDegree] = {}
    seen: dict[Value, bool] = {}
    while pending:
        value, is_clear = pending.pop()
        if value.is_token or not value.tensor.machine.is_float or seen.get(value) in (is_clear, True):
            continue  # no gradient goes through numbers of rows, nor through what decides
        seen[value] = is_clear
        is_rows = isinstance(splits.state(value), Split)
        if value in splits.combined or (is_rows and degrees.get(value) is not None) or _is_summed(value, splits, rows):
            judged[value] = _degree_of_sum(value, splits, degrees) if is_clear else None
            continue
        is_clear = is_clear and not is_rows
        sources = carried.get(value) or (value.node.operands if value.node is not None else ())
        pending += [(source, is_clear) for source in sources]
    return judged


def is_wrong(combine: str, degree: Degree) -> bool:
    """Whether gradients of this degree are certainly not what the word says: means do not grow with the batch, sums
    grow at least as it does. What grows, but more slowly, may be called either."""
    if degree == ANY:
        return False
    return degree.power >= 1 if combine == "mean" else degree.power <= 0


def _carried(node: Node) -> dict[Value, tuple[Value, ...]]:
    """Where the results of a node with regions, and what its iterations receive, come from."""
    if not node.regions:
        return {}
    users: dict[Value, tuple[Value, ...]] = {}
    for flow in flows(view(node)):
        ends = flow.outputs if flow.initial is None else (*flow.outputs, flow.initial)
        users.update((parameter, ends) for parameter in flow.parameters)
        users[flow.result] = ends
    return users


def _is_summed(value: Value, splits: BlockSplits, rows: RowUses) -> bool:
    """Whether a node on the whole batch makes a value that has to do with rows elsewhere, or a sum over examples."""
    node = value.node
    if node is None or is_elementwise(node):
        return False
    if node.op == "for":
        trips, carries = for_view(node).attributes.trips, for_view(node).results.values
        return trips is not None and splits.cutting.symbol in trips.symbols() and value in carries
    if node.regions:
        return False
    return node in rows.whole or (_has_examples(node.operands, splits) and not _has_examples([value], splits))


def _has_examples(values: Sequence[Value], splits: BlockSplits) -> bool:
    return any(splits.cutting.first_axis(v.tensor.shape) is not None for v in values if not v.is_token)


def _degree_of_sum(value: Value, splits: BlockSplits, degrees: dict[Value, MaybeDegree]) -> MaybeDegree:
    """The degree of what is made of a value of `gradients`: rows of examples, of which some go to each row of a sparse
    update, are still to be summed, whether blocks have been put together or the whole batch was there."""
    own = degrees.get(value)
    is_rows = _has_examples([value], splits) or isinstance(splits.state(value), Split)
    return more(own, 1.0) if is_rows else own


class _Search:
    """One walk through an entry; `_powers` are the degrees of sizes that have been met."""

    def __init__(self, cutting: Cutting) -> None:
        self._powers: dict[Symbol, float | None] = {cutting.symbol: 1.0}
        self._sizes = Sizes(self._powers)
        self.degrees: dict[Value, MaybeDegree] = {}

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.regions:
                results = self._regions(node)
            else:
                degrees = [self._of(v) for v in node.operands if not v.is_token]
                self._measure(node, degrees)
                results = [degree_of(node, degrees, self._sizes)] * len(node.results) if _has_values(node) else []
            self.degrees.update(zip(node.results, results, strict=False))

    def _of(self, value: Value) -> MaybeDegree:
        return self.degrees.get(value, FLAT)

    def _measure(self, node: Node, degrees: Sequence[MaybeDegree]) -> None:
        """A count that becomes a size."""
        symbol = measured(node)
        if symbol is not None:
            count = degrees[0] if node.op == "range" else None
            self._powers[symbol] = count.power if count is not None and count.is_dense and count != ANY else None

    # ---------------------------------------------------------------- regions --

    def _regions(self, node: Node) -> list[MaybeDegree]:
        match node.op:
            case "if":
                for region in node.regions:
                    self.nodes(region.nodes)
                then, otherwise = ([self._of(v) for v in region.outputs] for region in node.regions)
                return [same(pair) for pair in zip(then, otherwise, strict=True)]
            case "while":
                parts = while_view(node)
                self.nodes(parts.condition.nodes)
                return self._carried([self._of(v) for v in parts.initial.values], parts)
            case _:
                return self._for(node)

    def _for(self, node: Node) -> list[MaybeDegree]:
        parts = for_view(node)
        trips = parts.attributes.trips
        start = [self._of(v) for v in parts.initial.values]
        ends = self._carried(start, parts)
        if trips is not None and self._sizes.power(trips) != 0:
            pairs = zip(start, parts.inside.values, parts.after.values, strict=True)
            ends = [self._added(first, carried, end, parts.body, trips) for first, carried, end in pairs]
        return [*ends, *(self._of(v) for v in (*parts.after.emitted, *parts.after.tokens))]

    def _added(self, start: MaybeDegree, carried: Value, end: Value, body: Block, trips: Dim) -> MaybeDegree:
        """A carried value after more iterations the larger the batch is: what adds something up in each iteration."""
        if carried is end:
            return start
        terms = _terms(carried, end, body)
        return same([start, more(same([self._of(v) for v in terms]), self._sizes.power(trips))]) if terms else None

    def _carried(self, start: Sequence[MaybeDegree], parts: ForView | WhileView) -> list[MaybeDegree]:
        """What carried values come to: the same as before the iteration, or nothing that can be said."""
        now = list(start)
        while True:
            self.degrees.update(zip(parts.inside.values, now, strict=True))
            self.nodes(parts.body.nodes)
            after = [same((a, self._of(v))) for a, v in zip(now, parts.after.values, strict=True)]
            if after == now:
                return now
            now = after


def _has_values(node: Node) -> bool:
    return any(not value.is_token for value in node.results)


def _terms(carried: Value, end: Value, body: Block) -> list[Value]:
    """What an iteration adds to a carried value that nothing else looks at; nothing if it does more with it."""
    uses = [v for node in walk.nodes(body) for v in node.operands] + list(body.outputs)
    uses += [v for node in walk.nodes(body) for region in node.regions for v in region.outputs]
    terms: list[Value] = []
    now = carried
    while now is not end:
        users = [node for node in body.nodes if now in node.operands]
        if uses.count(now) != 1 or not users or not _adds_to(users[0], now):
            return []
        terms += users[0].operands[1:]
        now = users[0].result
    return terms


def _adds_to(node: Node, value: Value) -> bool:
    """Whether a node adds something else to a value, or takes it off."""
    return len(rules_of(node).coefficients) == 2 and node.operands[0] is value


def sums(entry: Entry, splits: BlockSplits, degrees: dict[Value, MaybeDegree]) -> list[Value]:
    """Single numbers that are sums over the batch: among them is the loss, if gradients are sums."""
    return [
        node.result
        for node in entry.block.nodes
        if isinstance(registry.record(node.op).lowering, Reduce)
        and splits.is_split(node.result)
        and not node.result.tensor.shape
        and node.result.tensor.machine.is_float
        and degrees.get(node.result) == Degree(1.0)
    ]
