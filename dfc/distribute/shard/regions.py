"""What loops carry and emit, and branches hand out, of state that is divided: by rows, where rows come and go.

    loop t = table for k in 0..3 { t = t * t }     t: Split(0), each task carries rows of its own to the next iteration
    if c { yield table } else { yield zeros(..) }  Split(0): rows of the zeros are made where those of the table lie

What a loop begins with is by rows, or what its iterations make is (then rows of the beginning are cut out of it). Where
that fails, because an iteration hands out rows in another order, the value is whole, with the reason. Assumes that
nothing is known of the regions yet when a node is entered. Guarantees that knowledge only grows, so that looking again
comes to an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Protocol, TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.shard.model import Division
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import Flow, bodies, flows, view
from dfc.ops.rules.sharding import Split

RowSplit: TypeAlias = tuple[Split, Division]
"""Along which axis a value is by rows, and how these are divided."""
ELSEWHERE = "its rows would lie elsewhere in the next iteration"
TWO_WAYS = "the branches hand out rows that lie in different places"


@dataclass(slots=True)
class Known:
    """`split`: parameters that are by rows because iterations make rows of them; `whole`: what cannot be, and why."""

    split: dict[Value, RowSplit] = field(default_factory=dict[Value, RowSplit])
    whole: dict[Value, str] = field(default_factory=dict[Value, str])

    def measure(self) -> tuple[int, int]:
        return len(self.split), len(self.whole)


class Finding(Protocol):
    """What is found out about values by rows."""

    def split_of(self, value: Value) -> RowSplit | None: ...

    def split(self, value: Value, row_split: RowSplit) -> None: ...

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


def entered(node: Node, known: Known, findings: Finding) -> None:
    """What iterations find: the states of the parameters of regions."""
    for flow in tensor_flows(node):
        if flow.initial is None:
            continue
        carried = flow.parameters[-1]
        if carried in known.whole:
            findings.needs(flow.initial, node, known.whole[carried])
            continue
        row_split = findings.split_of(flow.initial) or known.split.get(carried)
        for parameter in flow.parameters if row_split is not None else ():
            findings.split(parameter, row_split)  # type: ignore[arg-type]


def left(node: Node, known: Known, findings: Finding) -> None:
    """What comes of the regions: the states of the results."""
    for flow in tensor_flows(node):
        output_splits = [row_split for value in flow.outputs if (row_split := findings.split_of(value)) is not None]
        own = findings.split_of(flow.parameters[-1]) if flow.parameters else None
        row_split = own or (output_splits[0] if output_splits else None)
        if row_split is None:
            continue
        key = flow.parameters[-1] if flow.parameters else flow.result
        if key in known.whole or any(other != row_split for other in output_splits):
            reason = known.whole.setdefault(key, ELSEWHERE if flow.parameters else TWO_WAYS)
            for value in flow.outputs:
                findings.needs(value, node, reason)
            continue
        if flow.parameters and own is None:
            known.split[key] = row_split
        findings.split(flow.result, (row_split[0].at(row_split[0].axis + flow.is_emitted), row_split[1]))
