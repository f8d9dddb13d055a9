"""How values grow with the batch: whether a gradient is a mean over it or a sum.

The degree of a value is the k for which it becomes n^k times itself when every example is there n times: 0 for what
belongs to one example and for means, 1 for sums and for the size of the batch, None where there is no such k or it
cannot be seen. Zeros have every degree (`ANY`).

    let loss = mean(losses)      0          let g = 1 / B        -1
    let loss = sum(losses)       1          let dw = x^T @ dy    0 for the gradient of a mean, 1 for that of a sum
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from dfc.ir import walk
from dfc.ir.dims import Dim, product
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ops import registry
from dfc.ops.attributes import (
    AssignAttributes,
    AxisAttributes,
    ConstantAttributes,
    DimAttributes,
    ForAttributes,
    ReduceAttributes,
    ScatterAttributes,
)
from dfc.ops.record import Elementwise, Reduce
from dfc.passes.replicate.analysis import Cuts
from dfc.passes.replicate.model import RowUses
from dfc.passes.replicate.rules import is_zero
from dfc.passes.replicate.states import Cutting, Split

Degree = float | None
ANY = -inf
_SAME = frozenset({"add", "sub", "maximum", "minimum", "concat"})
_KEEPS = frozenset(
    {"neg", "abs", "cast", "relu", "reshape", "transpose", "broadcast", "slice", "reverse", "windows", "gather", "pad"}
)
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "sign": 0.0}


def degrees(entry: Entry, cutting: Cutting) -> dict[Value, Degree]:
    """The degree of every value of an entry."""
    search = _Search(cutting)
    search.nodes(entry.block.nodes)
    return search.found


def gradients(
    entry: Entry, cuts: Cuts, trained: frozenset[str], rows: RowUses, found: dict[Value, Degree]
) -> list[Value]:
    """What goes into a trained variable and is summed over the batch last, or is still to be: sums over blocks, rows of
    examples, and what is summed where the whole batch is. `found` has the degrees."""
    pending: list[Value] = []
    carried: dict[Value, tuple[Value, ...]] = {}
    for node in walk.nodes(entry.block):
        if isinstance(node.attributes, AssignAttributes) and node.attributes.resource in trained:
            pending += node.operands
        carried.update(_carried(node))
    judged: dict[Value, None] = {}
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen or value.is_token or not value.tensor.machine.is_float:
            continue  # no gradient goes through numbers of rows, nor through what decides
        seen.add(value)
        is_rows = isinstance(cuts.state(value), Split) and found.get(value) is not None
        if value in cuts.combined or is_rows or _is_summed(value, cuts, rows):
            judged[value] = None
        elif value in carried:
            pending += carried[value]
        elif value.node is not None:
            pending += value.node.operands
    return list(judged)


def _carried(node: Node) -> dict[Value, tuple[Value, ...]]:
    """Where the results of a node with regions, and what its rounds receive, come from."""
    if not node.regions:
        return {}
    is_for = isinstance(node.attributes, ForAttributes)
    first, count = (
        (2, node.attributes.carries) if isinstance(node.attributes, ForAttributes) else (0, len(node.results))
    )
    found: dict[Value, tuple[Value, ...]] = {}
    for number, result in enumerate(node.results):
        ends = [region.outputs[number] for region in (node.regions if node.op == "if" else node.regions[-1:])]
        if node.op != "if" and number < count:
            ends.append(node.operands[first + number])
            found.update((region.parameters[number + is_for], tuple(ends)) for region in node.regions)
        found[result] = tuple(ends)
    return found


def _is_summed(value: Value, cuts: Cuts, rows: RowUses) -> bool:
    """Whether a node on the whole batch makes a value that has to do with rows elsewhere, or a sum over examples."""
    node = value.node
    if node is None or node.regions or _is_elementwise(node):
        return False
    return node in rows.whole or (_has_examples(node.operands, cuts) and not _has_examples([value], cuts))


def _has_examples(values: Sequence[Value], cuts: Cuts) -> bool:
    return any(cuts.cutting.first_axis(v.tensor.shape) is not None for v in values if not v.is_token)


def degree_of_sum(value: Value, cuts: Cuts, found: dict[Value, Degree]) -> Degree:
    """The degree of what is made of a value of `gradients`: rows of examples, of which some go to each row of a sparse
    update, are still to be summed, whether blocks have been put together or the whole batch was there."""
    own = found.get(value)
    is_whole = value not in cuts.combined and _has_examples([value], cuts)
    is_rows = is_whole or isinstance(cuts.state(value), Split)
    return own if own in (None, ANY) or not is_rows else own + 1


def _is_elementwise(node: Node | None) -> bool:
    return node is not None and isinstance(registry.record(node.op).lowering, Elementwise)


class _Search:
    def __init__(self, cutting: Cutting) -> None:
        self._cutting = cutting
        self.found: dict[Value, Degree] = {}

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            results = self._regions(node) if node.regions else [self._plain(node)] * len(node.results)
            self.found.update(zip(node.results, results, strict=False))

    def _of(self, value: Value) -> Degree:
        return self.found.get(value, 0.0)

    def _size(self, size: Dim) -> Degree:
        """The degree of a size."""
        symbol = self._cutting.symbol
        if symbol not in size.symbols():
            return 0.0
        double = size.substitute({symbol: 2 * Dim((((symbol,), 1),))})
        return next((float(k) for k in (1, 2, 3) if double == size * 2**k), None)

    def _plain(self, node: Node) -> Degree:
        degrees = [self._of(v) for v in node.operands if not v.is_token]
        match node.attributes:
            case DimAttributes(size):
                return self._size(size)
            case ConstantAttributes(value):
                return ANY if is_zero(value) else 0.0
            case ReduceAttributes(axes):
                count = product(node.operands[0].tensor.shape[axis] for axis in axes)
                return _plus(degrees[0], self._size(count)) if node.op == "sum" else self._fold(node, degrees[0])
            case ScatterAttributes():
                return _plus(degrees[1], self._size(node.operands[0].tensor.elements))
            case AxisAttributes(axis) if node.op.startswith("cum"):
                return degrees[0] if self._size(node.operands[0].tensor.shape[axis]) == 0 else None
            case _:
                return self._by_name(node, degrees)

    def _fold(self, node: Node, degree: Degree) -> Degree:
        return None if node.op == "prod" and degree not in (0, ANY) else degree

    def _by_name(self, node: Node, degrees: Sequence[Degree]) -> Degree:
        match node.op:
            case "mul":
                return _plus(*degrees)
            case "div":
                return _plus(degrees[0], _times(degrees[1], -1))
            case "matmul":
                return _plus(_plus(*degrees), self._size(node.operands[0].tensor.shape[-1]))
            case "select":
                return same(degrees[1:])
            case "random_at":
                return 0.0
            case "iota":
                return 0.0 if self._size(node.result.tensor.elements) == 0 else None
            case op if op in _SAME:
                return same(degrees)
            case op if op in _KEEPS:
                return degrees[0]
            case op if op in _POWERS:
                return _times(degrees[0], _POWERS[op])
            case _:
                return _through(node, degrees)

    # ---------------------------------------------------------------- regions --

    def _regions(self, node: Node) -> list[Degree]:
        match node.op:
            case "if":
                for region in node.regions:
                    self.nodes(region.nodes)
                then, otherwise = ([self._of(v) for v in region.outputs] for region in node.regions)
                return [same(pair) for pair in zip(then, otherwise, strict=True)]
            case "while":
                plain = [v for v in node.operands if not v.is_token]
                self.nodes(node.regions[0].nodes)
                return self._carried([self._of(v) for v in plain], node.regions[1], 0)
            case _:
                assert isinstance(node.attributes, ForAttributes)
                count = node.attributes.carries
                (body,) = node.regions
                found = self._carried([self._of(v) for v in node.operands[2 : 2 + count]], body, 1)
                trips = node.attributes.trips
                if trips is not None and self._size(trips) != 0:
                    found = [None for _ in found]
                return [*found, *(self._of(v) for v in body.outputs[count:])]

    def _carried(self, start: Sequence[Degree], body: Block, first: int) -> list[Degree]:
        """What carried values come to: the same as before the round, or nothing that can be said."""
        now = list(start)
        while True:
            self.found.update(zip(body.parameters[first:], now, strict=False))
            self.nodes(body.nodes)
            after = [same((a, self._of(v))) for a, v in zip(now, body.outputs, strict=False)]
            if after == now:
                return now
            now = after


def same(degrees: Sequence[Degree]) -> Degree:
    """The one degree that all have."""
    known = {degree for degree in degrees if degree != ANY}
    if not known:
        return ANY
    return known.pop() if len(known) == 1 else None


def _plus(a: Degree, b: Degree) -> Degree:
    if ANY in (a, b):
        return ANY
    return None if a is None or b is None else a + b


def _times(degree: Degree, factor: float) -> Degree:
    if degree == ANY:
        return ANY if factor > 0 else None
    return None if degree is None else degree * factor


def _through(node: Node, degrees: Sequence[Degree]) -> Degree:
    """Any other function of values that do not grow does not grow; a comparison of values that grow alike neither."""
    if all(degree in (0, ANY) for degree in degrees):
        return 0.0
    compares = isinstance(registry.record(node.op).lowering, Elementwise) and node.result.tensor.machine.is_bool
    return 0.0 if compares and same(degrees) is not None else None


def sums(entry: Entry, cuts: Cuts, found: dict[Value, Degree]) -> list[Value]:
    """Single numbers that are sums over the batch: among them is the loss, if gradients are sums."""
    return [
        node.result
        for node in entry.block.nodes
        if isinstance(registry.record(node.op).lowering, Reduce)
        and cuts.is_cut(node.result)
        and not node.result.tensor.shape
        and node.result.tensor.machine.is_float
        and found.get(node.result) == 1
    ]
