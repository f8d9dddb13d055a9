"""What all blocks of one entry share while they are fused: where values are, and the program that is being made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import Literal
from dfc.ir.dtypes import U64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.kernels.program import BufferRole, Program
from dfc.lower.storage import BufferView, Storage, whole_view
from dfc.ops import registry
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.lowering.views import is_alias


@dataclass(slots=True)
class Scope:
    """`views` says where values are that have memory; a reshape that is no index arithmetic is looked up through its
    operand."""

    program: Program
    fusing: bool = True  # False: every node its own kernel (for tests and for narrowing down mistakes)
    isolated: frozenset[str] = frozenset()  # state that other calls may change at any moment
    numbers: dict[Literal, int] = field(default_factory=dict[Literal, int])  # of the program's constants
    measures: bool = False  # whether the entry finds out sizes while it runs
    views: dict[Value, BufferView] = field(default_factory=dict[Value, BufferView])
    texts: dict[Value, int] = field(default_factory=dict[Value, int])  # numbers of text arguments
    results: set[Storage] = field(default_factory=set[Storage])
    claimed: dict[Storage, BufferView] = field(
        default_factory=dict[Storage, BufferView]
    )  # results that a block made itself
    states: dict[str, Storage] = field(default_factory=dict[str, Storage])
    constants: dict[Literal, Storage] = field(default_factory=dict[Literal, Storage])
    fault_sites: dict[tuple[Node, int], int] = field(default_factory=dict[tuple[Node, int], int])

    def view_of(self, value: Value) -> BufferView | None:
        """Where a value is, if it has memory by now."""
        base = base_of(value)
        known = self.views.get(base)
        if known is None or base is value:
            return known
        return BufferView(known.storage, value.tensor.shape)

    def state(self, name: str) -> Storage:
        """The memory of a variable or rng."""
        storage = self.states.get(name)
        if storage is None:
            kind = self.program.resources[name].type
            storage = self.states[name] = Storage(BufferRole.RESOURCE, kind.machine, kind.shape, name, resource=name)
        return storage

    def constant(self, node: Node) -> BufferView:
        """The memory of a constant array."""
        attributes = node.attributes
        assert isinstance(attributes, ConstantAttributes)
        return self.literal(attributes.value, node.result.tensor, node.name)

    def table(self, node: Node) -> BufferView:
        """The memory of a small array whose elements follow from their places."""
        (array,) = registry.record(node.op).evaluate((), node.attributes, {})
        return self.literal(Literal(array), node.result.tensor, node.name)

    def words(self, words: Sequence[int], name: str) -> BufferView:
        """The memory of constant u64."""
        return self.literal(Literal(np.array(words, np.uint64)), tensor(U64, len(words)), name)

    def literal(self, literal: Literal, kind: TensorType, name: str) -> BufferView:
        """The memory of constant elements; equal ones share it."""
        storage = self.constants.get(literal)
        if storage is None:
            number = self.numbers.setdefault(literal, len(self.numbers))
            if number == len(self.program.constants):
                self.program.constants.append(literal)
            storage = Storage(BufferRole.CONSTANT, kind.machine, kind.shape, name, index=number)
            self.constants[literal] = storage
        return whole_view(storage)

    def fault(self, node: Node, kind: str, message: str, span: Span, axis: int = 0) -> int:
        """The fault site of a node (for an index: of one axis), one however often the node is computed."""
        site = self.fault_sites.get((node, axis))
        if site is None:
            site = self.fault_sites[node, axis] = self.program.fault(kind, message, span)
        return site


def base_of(value: Value) -> Value:
    """The value whose memory a chain of reshapes names."""
    while value.node is not None and is_alias(value.node):
        value = value.node.operands[0]
    return value
