"""What a node costs: bytes of its values, and seconds on a task, by its record's rule of cost or by a profile.

Sizes that only a call knows count as `ASSUMED`. The rates are those of one core of a server: what counts
for placement is how computing compares with moving (white paper of TensorFlow, section 3.2.1: the cost model).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import ForAttributes
from dfc.ops.rules.costs import bytes_of
from dfc.ops.rules.lookup import cost_of

ASSUMED = 64
"""The size of a dimension that no number is known for."""
UNKNOWN_TRIP_COUNT = 16
PRODUCT_RATE = 100e9
"""Multiplications and additions of products, per second."""
MEMORY_RATE = 10e9
"""Bytes read and written, per second."""
OVERHEAD = 0.5e-6
LATENCY = 20e-6
WIRE_RATE = 4e9
"""A message takes `LATENCY` seconds and one for each `WIRE_RATE` bytes."""


@dataclass(frozen=True, slots=True)
class Costs:
    """`sizes` are values for dimensions, `own` those that an entry has for itself; `measured` seconds by the full name
    of a node, which count more than the rules, and `blocks` into how many pieces its entry was cut meanwhile."""

    sizes: Mapping[Symbol, int] = field(default_factory=dict["Symbol", int])
    measured: Mapping[str, float] = field(default_factory=dict[str, float])
    own: Mapping[str, Mapping[Symbol, int]] = field(default_factory=dict[str, "Mapping[Symbol, int]"])
    blocks: Mapping[str, int] = field(default_factory=dict[str, int])

    def of_entry(self, name: str) -> Costs:
        """What things cost in one entry."""
        return replace(self, sizes={**self.sizes, **self.own.get(name, {})})

    def size(self, dim: Dim) -> int:
        known = {symbol: self.sizes.get(symbol, ASSUMED) for symbol in dim.symbols()}
        return max(dim.evaluate(known), 0)

    def bytes_of(self, value: Value) -> int:
        if not isinstance(value.type, TensorType):
            return 0
        return self.bytes_of_type(value.type)

    def bytes_of_type(self, type_: TensorType) -> int:
        return bytes_of(type_, self.size)

    def transfer(self, value: Value) -> float:
        """Seconds until a value is at another task."""
        return LATENCY + self.bytes_of(value) / WIRE_RATE

    def seconds(self, node: Node) -> float:
        """Seconds a node takes on a task, what is in its regions included."""
        known = self.measured.get(node.name)
        if known is not None:
            return known
        if node.regions:
            return OVERHEAD + self.trip_count(node) * sum(self.seconds(n) for r in node.regions for n in r.nodes)
        cost = cost_of(node, self.size)
        if not cost.work:
            return 0.0
        return OVERHEAD + cost.operations / PRODUCT_RATE + cost.bytes / MEMORY_RATE

    def trip_count(self, node: Node) -> int:
        """How often the regions of a node run."""
        if node.op == "if":
            return 1
        attributes = node.attributes
        if isinstance(attributes, ForAttributes) and attributes.trips is not None:
            return self.size(attributes.trips)
        return UNKNOWN_TRIP_COUNT


def state_bytes(type_: TensorType) -> int:
    return Costs().bytes_of_type(type_)


def nodes_inside(node: Node) -> Sequence[Node]:
    """The node and everything in its regions."""
    return [node, *(inner for region in node.regions for inner in walk.nodes(region))]
