"""What loops carry and emit, and branches hand out, of state that is divided: by rows, where rows come and go.

    loop t = table for k in 0..3 { t = t * t }     t: Split(0), each task carries its own rows from round to round
    if c { yield table } else { yield zeros(..) }  Split(0): rows of the zeros are made where those of the table lie

What a loop begins with is by rows, or what its rounds make is (then rows of the beginning are cut out of it). Where
that fails, because a round hands out rows in another order, the value is whole, with the reason. Assumes that nothing
is known of the regions yet when a node is entered. Guarantees that knowledge only grows, so that looking again comes to
an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from dfc.distribute.shard.model import Division
from dfc.ir.graph import Block, Node, Value
from dfc.ops.attributes import ForAttributes
from dfc.ops.rules.sharding import Split

Cut: TypeAlias = tuple[Split, Division]
"""Along which axis a value is by rows, and how these are divided."""
ELSEWHERE = "its rows would lie elsewhere in the next round"
TWO_WAYS = "the branches hand out rows that lie in different places"


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that a loop carries (from `first`, through `parameters`) or emits, or that branches hand out."""

    number: int
    result: Value
    outputs: tuple[Value, ...]
    first: Value | None = None
    parameters: tuple[Value, ...] = ()
    is_emitted: bool = False

    def inner_axis(self, axis: int) -> int:
        """The axis of rows inside, where they lie along this one in the result."""
        return axis - self.is_emitted


@dataclass(slots=True)
class Known:
    """`split`: parameters that are by rows because rounds make rows of them; `whole`: what cannot be, and why."""

    split: dict[Value, Cut] = field(default_factory=dict[Value, Cut])
    whole: dict[Value, str] = field(default_factory=dict[Value, str])

    def measure(self) -> tuple[int, int]:
        return len(self.split), len(self.whole)


class Finding(Protocol):
    """What is found out about values by rows."""

    def cut_of(self, value: Value) -> Cut | None: ...

    def split(self, value: Value, cut: Cut) -> None: ...

    def needs(self, value: Value, node: Node, reason: str) -> None: ...


def slots(node: Node) -> Iterator[Slot]:
    """What a node with regions carries, emits or hands out, in the order of its results."""
    results = [value for value in node.results if not value.is_token]
    carried = node.attributes.carries if isinstance(node.attributes, ForAttributes) else len(results)
    for k, result in enumerate(results):
        if node.op == "if":
            yield Slot(k, result, tuple(region.outputs[k] for region in node.regions))
        elif node.op == "while":
            parameters = tuple(region.parameters[k] for region in node.regions)
            yield Slot(k, result, (node.regions[1].outputs[k],), node.operands[k], parameters)
        elif k < carried:
            (body,) = node.regions
            yield Slot(k, result, (body.outputs[k],), node.operands[2 + k], (body.parameters[1 + k],))
        else:
            yield Slot(k, result, (node.regions[0].outputs[k],), is_emitted=True)


def first_operand(node: Node) -> int:
    """The number of the first operand that a loop carries."""
    return 2 if node.op == "for" else 0


def steering(node: Node) -> tuple[Value, ...]:
    """What says which rounds or branches run."""
    if node.op == "while":
        return node.regions[0].outputs[:1]
    return node.operands[:1] if node.op == "if" else node.operands[:2]


def outputs_of(node: Node, region: Block) -> Iterator[tuple[Slot, Value]]:
    """What a region hands out of each slot."""
    if node.op == "while" and region is node.regions[0]:
        return
    for slot in slots(node):
        yield slot, region.outputs[slot.number]


def entered(node: Node, known: Known, found: Finding) -> None:
    """What rounds find: the states of the parameters of regions."""
    for slot in slots(node):
        if slot.first is None:
            continue
        carried = slot.parameters[-1]
        if carried in known.whole:
            found.needs(slot.first, node, known.whole[carried])
            continue
        cut = found.cut_of(slot.first) or known.split.get(carried)
        for parameter in slot.parameters if cut is not None else ():
            found.split(parameter, cut)  # type: ignore[arg-type]


def left(node: Node, known: Known, found: Finding) -> None:
    """What comes of the regions: the states of the results."""
    for slot in slots(node):
        given = [cut for value in slot.outputs if (cut := found.cut_of(value)) is not None]
        own = found.cut_of(slot.parameters[-1]) if slot.parameters else None
        cut = own or (given[0] if given else None)
        if cut is None:
            continue
        key = slot.parameters[-1] if slot.parameters else slot.result
        if key in known.whole or any(other != cut for other in given):
            reason = known.whole.setdefault(key, ELSEWHERE if slot.parameters else TWO_WAYS)
            for value in slot.outputs:
                found.needs(value, node, reason)
            continue
        if slot.parameters and own is None:
            known.split[key] = cut
        found.split(slot.result, (cut[0].at(cut[0].axis + slot.is_emitted), cut[1]))
