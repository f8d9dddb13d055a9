"""What the rows of a short batch are, in a batch that was filled up with copies of its last row.

    x: f32[B, 4]                    rows along axis 0
    let m = mean(x, axis = 0)       the same for all rows: it is over the rows that count alone
    let y = square(x - m)           rows along axis 0 again; those behind are copies of the last one that counts

Follows the rows through an entry with the rules of replication, which say what an op makes of pieces of the batch:
where it gives a part of a sum, it sums over rows. Whatever mixes rows in another way cannot be filled up.

Assumes an entry after all passes, and after `numbered`. Guarantees of each value whose type has the split size that it
has rows along one axis, each row behind the last one that counts being a copy of that, and of each other value that no
row behind has a part in it, if the sums of `summed` leave these out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.graph import Block, DimCheck, Entry, Node, Value
from dfc.ir.regions import ForView, IfView, WhileView, bodies, view
from dfc.ir.symbols import symbols_of
from dfc.ir.types import TensorType
from dfc.ops.attributes import (
    ArgAttributes,
    AssignAttributes,
    AxisAttributes,
    DimAttributes,
    OperandSelector,
    ReduceAttributes,
    ScatterAttributes,
    ShapeAttributes,
    SliceAttributes,
    TypeAttributes,
)
from dfc.ops.rules.lookup import rules_of, use_of
from dfc.ops.rules.sharding import COMMON, Common, Cutting, Partial, Split, State, join, quotient
from dfc.ops.rules.use import NeededWhole

_SIZED = (DimAttributes, ShapeAttributes, TypeAttributes, ScatterAttributes)
"""Attributes that may hold the split size: that of a result, or one that is replaced."""


class CannotPadError(Exception):
    """Something mixes the rows of a batch, so that it cannot be filled up."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(slots=True)
class Rows:
    """The finding: where the rows of values are, and the nodes that sum over rows."""

    cutting: Cutting
    states: dict[Value, Split] = field(default_factory=dict[Value, Split])
    summed: set[Node] = field(default_factory=set[Node])

    def per_row(self, size: Dim, state: Split) -> Dim | None:
        """How many elements of an axis belong to one row, next to each other; None if that cannot be said."""
        result = quotient(size, (state.outer or ONE) * dim(self.cutting.symbol))
        if result is None or self.cutting.symbol in (result.symbols() | (state.outer or ONE).symbols()):
            return None
        return result


def rows_of(entry: Entry, cutting: Cutting) -> Rows:
    """Where the rows are; raises `CannotPadError`."""
    for check in entry.checks:
        if not _holds_for_more(check, cutting):
            text = f"{check.left} {check.relation} {check.right} has to hold, and may not for more rows"
            raise CannotPadError(text, check.span)
    following = _Following(Rows(cutting))
    for value in entry.block.parameters:
        axis = cutting.first_axis(value.type.shape) if isinstance(value.type, TensorType) else None
        following.define(value, COMMON if axis is None else Split(axis), entry.span)
    following.nodes(entry.block.nodes)
    return following.rows


def _holds_for_more(check: DimCheck, cutting: Cutting) -> bool:
    """Whether a condition on sizes holds for more rows if it holds for some."""
    symbol = cutting.symbol
    if symbol not in check.left.symbols() | check.right.symbols():
        return True
    terms = [term for term in (check.left - check.right).terms if symbol in Dim((term,)).symbols()]
    grows = all(factor > 0 and symbol in monomial for monomial, factor in terms)
    is_never_zero = check.relation == "!=" and (check.left - check.right).terms == tuple(terms) and len(terms) == 1
    return grows and (check.relation in (">", ">=") or is_never_zero)


class _Following:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def state(self, value: Value) -> State:
        return self.rows.states.get(value, COMMON)

    def define(self, value: Value, state: State, span: Span) -> None:
        """Takes down what a value is; raises `CannotPadError` if its rows cannot be told from its type."""
        if not isinstance(value.type, TensorType):
            return
        symbol, shape = self.rows.cutting.symbol, value.type.shape
        axes = [axis for axis, size in enumerate(shape) if symbol in size.symbols()]
        if isinstance(state, Split) and axes == [state.axis] and self.rows.per_row(shape[axes[0]], state) is not None:
            self.rows.states[value] = state
            return
        self.rows.states.pop(value, None)
        if axes or isinstance(state, Split):
            raise CannotPadError(f"the rows of {value.type} are not along one axis, one behind the other", span)

    def nodes(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            states = self._region(node) if node.regions else self._plain(node)
            results = [value for value in node.results if not value.is_token]
            for value, state in zip(results, states, strict=True):
                self.define(value, state, node.span)

    def _plain(self, node: Node) -> Sequence[State]:
        self._check_sizes(node)
        operands = [value for value in node.operands if not value.is_token]
        states = [self.state(value) for value in operands]
        if len(operands) < len(node.operands):
            if self._assigns_rows(node, operands):
                self.rows.summed.add(node)
            elif any(isinstance(state, Split) for state in states):
                raise CannotPadError("all rows are stored, or told, together", node.span)
            return [COMMON for value in node.results if not value.is_token]
        if self._is_whole(node, states):
            return [COMMON]
        try:
            use = use_of(node, states, self.rows.cutting)
        except NeededWhole as need:
            reason = "it cannot be seen that each row picks from itself alone" if _picks(node, states) else need.reason
            raise CannotPadError(reason, node.span) from None
        if any(isinstance(state, Partial) for state in use.results):
            return [self._summed(node, use.required)]
        return use.results

    def _is_whole(self, node: Node, states: Sequence[State]) -> bool:
        """Whether a node makes something of all rows that replication does not share out, but copies do not change, or
        can be left out of."""
        state, how = next(iter(states), None), node.attributes
        if not isinstance(state, Split):
            return False
        match how:
            case ReduceAttributes() if rules_of(node).owners_combine and state.axis in how.axes:
                self.rows.summed.add(node)
                return True
            case ArgAttributes():  # the first of equal ones, which is none of the copies
                return how.axis == state.axis and (state.outer or ONE) == ONE
            case SliceAttributes():  # rows that are there: the entry has checked it of the short batch
                ends = (how.starts[state.axis].constant, how.sizes[state.axis].constant)
                return None not in ends and how.steps[state.axis] > 0 and (state.outer or ONE) == ONE
            case _:
                return False

    def _assigns_rows(self, node: Node, operands: Sequence[Value]) -> bool:
        """Whether each row goes to a row of a variable that it names itself."""
        how = node.attributes
        if not isinstance(how, AssignAttributes) or len(operands) != 2:
            return False
        axis = next((n for n, selector in enumerate(how.index) if isinstance(selector, OperandSelector)), None)
        value, ids = (self.state(each) for each in operands)
        if axis is None or not isinstance(value, Split) or not isinstance(ids, Split):
            return False
        rank = len(how.index) - 1 + operands[1].tensor.rank
        return operands[0].tensor.rank == rank and value.axis == axis + ids.axis

    def _summed(self, node: Node, required: Sequence[State]) -> State:
        """A sum over rows, or an extreme of them, is the same for all rows."""
        filling = rules_of(node).filling
        if filling is None:
            raise CannotPadError(f"`{node.op}` puts rows together", node.span)
        for value, state in zip(node.operands, required, strict=True):
            if isinstance(state, Split) and value not in self.rows.states:
                raise CannotPadError(f"`{node.op}` puts rows together with what has none", node.span)
        if filling.neutral is not None:
            self.rows.summed.add(node)
        return COMMON

    def _check_sizes(self, node: Node) -> None:
        """Refuses sizes of the batch that are neither those of a result nor a number."""
        symbol, how = self.rows.cutting.symbol, node.attributes
        fixed: Attributes | tuple[Dim, ...] = how.starts if isinstance(how, SliceAttributes) else how
        if not isinstance(how, _SIZED) and symbol in symbols_of(fixed):
            raise CannotPadError(f"`{node.op}` depends on how many rows there are", node.span)

    # ---------------------------------------------------------------- regions --

    def _region(self, node: Node) -> Sequence[State]:
        self._check_sizes(node)
        parts = view(node)
        if isinstance(parts, IfView):
            then, otherwise = (self._inside(node, region, ()) for region in bodies(parts))
            return self._joined(node, then, otherwise)
        return self._loop_states(parts)

    def _loop_states(self, parts: ForView | WhileView) -> Sequence[State]:
        """The results of a loop: what it carries is in every iteration what it is in the others."""
        node, carried = parts.node, [self.state(value) for value in parts.initial.values]
        count, before = len(carried), [COMMON] if isinstance(parts, ForView) else []
        while True:
            if isinstance(parts, WhileView):
                self._inside(node, parts.condition, carried)
            outputs = self._inside(node, parts.body, [*before, *carried])
            now = self._joined(node, carried, outputs[:count])
            if now == carried:
                emits = [s.at(s.axis + 1) if isinstance(s, Split) else s for s in outputs[count:]]
                return [*carried, *emits]
            carried = now

    def _inside(self, node: Node, region: Block, parameters: Sequence[State]) -> list[State]:
        plain = [value for value in region.parameters if not value.is_token]
        for value, state in zip(plain, parameters, strict=True):
            self.define(value, state, node.span)
        self.nodes(region.nodes)
        return [self.state(value) for value in region.outputs if not value.is_token]

    def _joined(self, node: Node, before: Sequence[State], after: Sequence[State]) -> list[State]:
        states: list[State] = []
        for a, b in zip(before, after, strict=True):
            both = join(_plain(a), _plain(b))
            if both is None:
                raise CannotPadError("rows stand in one order here, and in another one before", node.span)
            states.append(both)
        return states


def _picks(node: Node, states: Sequence[State]) -> bool:
    """Whether rows are picked by positions that each row has of its own."""
    if not isinstance(node.attributes, AxisAttributes) or len(states) != 2:
        return False
    return not node.operands[1].tensor.machine.is_float and all(isinstance(state, Split) for state in states)


def _plain(state: State) -> State:
    return COMMON if isinstance(state, Common) else state
