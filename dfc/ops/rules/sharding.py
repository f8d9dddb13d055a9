"""What one block of the batch has of a value, and how its type follows.

    COMMON          the value itself, the same in every block
    Split(axis)     the block's piece: blocks stand in their order along `axis`, in each of its `outer` runs
    Partial(how)    a part: the value is what all blocks' parts make together (`sum`, `max`, `min`, `and`, `or`)

Sizes: the split size means the size of one block in the rewritten entry, so the size of the whole batch is `blocks`
times the symbol. Assumes nothing of ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Protocol, TypeVar, cast

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, ZERO, Dim, Symbol, dim
from dfc.ir.graph import Node
from dfc.ir.types import TensorType, Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Common:
    """`zero`: all its elements are known to be 0, so that it is also a part of 0."""

    zero: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """`outer` is None where it does not matter: all elements along the axis are equal."""

    axis: int
    outer: Dim | None = ONE

    def at(self, axis: int) -> Split:
        return Split(axis, self.outer)


@dataclass(frozen=True, slots=True)
class Partial:
    how: str = "sum"


State = Common | Split | Partial
COMMON = Common()
ZEROS = Common(zero=True)
SUM = Partial()


def quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` if it is a size whatever the symbols are (none of them 0); else None."""
    result = ONE if a == b else a // b
    return result if result * b == a else None


class Partitioning(Protocol):
    """What the rules ask of how axes are cut: a batch into blocks (`Cutting`), or state by rows over tasks."""

    def can_split(self, size: Dim) -> bool:
        """Whether an axis of this size can be the one that is cut."""
        ...

    def can_start(self, node: Node, size: Dim) -> bool:
        """Whether the result of a node, which is made of nothing that is cut, can be pieces along an axis of this
        size."""
        ...


@dataclass(frozen=True, slots=True)
class Cutting:
    """Which size is cut, into how many blocks."""

    symbol: Symbol
    blocks: int

    def whole(self, size: Dim) -> Dim:
        """A size of the undivided program, in terms of the block's size."""
        return size.substitute({self.symbol: self.blocks * dim(self.symbol)})

    def part(self, size: Dim) -> Dim:
        """The size of a block's piece of an axis that can be cut."""
        return self.whole(size) // dim(self.blocks)

    def can_split(self, size: Dim) -> bool:
        """Whether an axis of this size falls into equal blocks, whatever the batch is."""
        return self.symbol in size.symbols() and self.whole(size) % dim(self.blocks) == ZERO

    def can_start(self, node: Node, size: Dim) -> bool:
        """The same for what is not made of anything that is cut."""
        del node
        return self.can_split(size)

    def first_axis(self, shape: Sequence[Dim]) -> int | None:
        """The first axis that can be cut."""
        return next((axis for axis, size in enumerate(shape) if self.can_split(size)), None)

    def type_of(self, type_: Type, state: State) -> Type:
        """The type of what one block has of a value of this type."""
        if not isinstance(type_, TensorType):
            return type_
        split_axis = state.axis if isinstance(state, Split) else None
        shape = (self.part(d) if axis == split_axis else self.whole(d) for axis, d in enumerate(type_.shape))
        return type_.with_shape(tuple(shape))

    def attributes_of(self, attributes: Attributes) -> Attributes:
        """Attributes with the sizes of the whole batch in them."""
        return self._renewed(attributes)

    def _renewed(self, thing: T) -> T:
        if isinstance(thing, Dim):
            return cast(T, self.whole(thing))
        if isinstance(thing, tuple):
            items = cast("tuple[object, ...]", thing)
            return cast(T, tuple(self._renewed(item) for item in items))
        if not isinstance(thing, Attributes | TensorType):
            return thing
        assert is_dataclass(thing)
        changed = {field.name: self._renewed(getattr(thing, field.name)) for field in fields(thing)}
        return replace(thing, **changed)


def join(a: State, b: State) -> State | None:
    """What both can be turned into inside a block; None if there is nothing."""
    match a, b:
        case Common(), Common():
            return ZEROS if a.zero and b.zero else COMMON
        case Split(), Split():
            if a.axis != b.axis or (None not in (a.outer, b.outer) and a.outer != b.outer):
                return None
            return a if b.outer is None else b
        case Partial(), Partial():
            return a if a == b else None
        case Common(), Split() | Partial():
            return join(b, a)
        case Split(), Common():
            return Split(a.axis, a.outer or ONE)
        case Partial(), Common():
            return a if a.how == "sum" else None
        case _:
            return None
