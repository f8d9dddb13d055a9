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
from dfc.ir.regions import Flow, bodies, flows, view
from dfc.ops.rules.sharding import Split

Cut: TypeAlias = tuple[Split, Division]
"""Along which axis a value is by rows, and how these are divided."""
ELSEWHERE = "its rows would lie elsewhere in the next round"
TWO_WAYS = "the branches hand out rows that lie in different places"


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


def tensor_flows(node: Node) -> tuple[Flow, ...]:
    """What a node with regions carries, emits or hands out, in the order of its results."""
    return tuple(flow for flow in flows(view(node)) if not flow.result.is_token)


def inner_axis(flow: Flow, axis: int) -> int:
    """The axis of rows inside, where they lie along this one in the result."""
    return axis - flow.is_emitted


def outputs_of(node: Node, region: Block) -> Iterator[tuple[Flow, Value]]:
    """What a region hands out for each result."""
    handing_out = bodies(view(node))
    if region in handing_out:
        number = handing_out.index(region)
        for flow in tensor_flows(node):
            yield flow, flow.outputs[number]


def entered(node: Node, known: Known, found: Finding) -> None:
    """What rounds find: the states of the parameters of regions."""
    for flow in tensor_flows(node):
        if flow.initial is None:
            continue
        carried = flow.parameters[-1]
        if carried in known.whole:
            found.needs(flow.initial, node, known.whole[carried])
            continue
        cut = found.cut_of(flow.initial) or known.split.get(carried)
        for parameter in flow.parameters if cut is not None else ():
            found.split(parameter, cut)  # type: ignore[arg-type]


def left(node: Node, known: Known, found: Finding) -> None:
    """What comes of the regions: the states of the results."""
    for flow in tensor_flows(node):
        given = [cut for value in flow.outputs if (cut := found.cut_of(value)) is not None]
        own = found.cut_of(flow.parameters[-1]) if flow.parameters else None
        cut = own or (given[0] if given else None)
        if cut is None:
            continue
        key = flow.parameters[-1] if flow.parameters else flow.result
        if key in known.whole or any(other != cut for other in given):
            reason = known.whole.setdefault(key, ELSEWHERE if flow.parameters else TWO_WAYS)
            for value in flow.outputs:
                found.needs(value, node, reason)
            continue
        if flow.parameters and own is None:
            known.split[key] = cut
        found.split(flow.result, (cut[0].at(cut[0].axis + flow.is_emitted), cut[1]))
