"""What computing a value takes if everything inline below it is absorbed, down to what is in memory.

Before: `h = relu(p + b)` (p: a product), `d = (y - m) * r` (y in memory; m and r: of each channel)
After:  the cone of `h` is all that the product is used for; that of `d` takes two operations and the load of `y`

Assumes inline nodes in program order, and what will be in memory whatever it costs. Guarantees linear time in nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sized

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import product
from dfc.ir.graph import Node, Value
from dfc.lower.fuse.inline import is_product, needs_memory, repeats_elements, weight
from dfc.lower.fuse.items.cost import HIDDEN, assumed, loaded_bytes

NEVER = 1 << 60


@dataclass(slots=True)
class Cone:
    """The work of an element: operations by the weights of op records, bytes of what is read at its point.

    `several_weight` and `several_loaded` are the same where several items compute the value: what a product's kernel
    stores instead of the product is in memory then, since all of them use it."""

    weight: int = 0
    loaded: int = 0
    several_weight: int = 0
    several_loaded: int = 0
    deadline: int = NEVER  # position of the first write to a variable it reads
    follows: bool = False  # it reads a product, whose kernel can compute it on the way
    replaces: bool = False  # all that a product is used for, so that its kernel stores this instead of the product
    of_indices: bool = True  # it reads nothing: a mask, say, which compares indices

    @property
    def is_stored_by_product(self) -> bool:
        """Whether the kernel of a product stores it where several items use it: at no cost if it does so instead of the
        product, else if it is too much work to be repeated."""
        return self.replaces or (self.follows and self.several_weight > HIDDEN)


def cones_of(
    nodes: Iterable[Node],
    forced: Container[Value],
    users: Mapping[Value, Sized],
    deadline: Callable[[Value], int],
) -> dict[Value, Cone]:
    """The cones of inline nodes; `forced` are the values among them that have memory, `deadline` says when the memory
    of a value is overwritten."""
    cones: dict[Value, Cone] = {}
    for node in nodes:
        cone = Cone(weight(node), several_weight=weight(node))
        for position, operand in enumerate(node.operands):
            inner = None if operand in forced or needs_memory(node, position) else cones.get(operand)
            if inner is None:
                _load(cone, loaded_bytes(operand, node.result), deadline(operand))
            else:
                _absorb(cone, inner, node, operand)
            cone.follows = cone.follows or is_product(operand) or (inner is not None and inner.follows)
            replaces = is_product(operand) if inner is None else inner.replaces
            cone.replaces = cone.replaces or (replaces and len(users[operand]) == 1)
        cones[node.result] = cone
    return cones


def _load(cone: Cone, loaded: int, deadline: int) -> None:
    cone.loaded += loaded
    cone.several_loaded += loaded
    cone.deadline = min(cone.deadline, deadline)
    cone.of_indices = False


def _absorb(cone: Cone, inner: Cone, node: Node, operand: Value) -> None:
    """Adds what the operand takes. Where fewer elements of it are repeated, a channel's statistics say, they are
    computed once, before the loops along which they are the same or into memory, and are read from the first cache."""
    cone.deadline = min(cone.deadline, inner.deadline)
    cone.of_indices = cone.of_indices and inner.of_indices
    if repeats_elements(node) and _count(operand) < _count(node.result):
        added, loaded = (inner.weight if inner.weight <= HIDDEN else 0), 0
        several_added, several_loaded = added, 0
    elif inner.is_stored_by_product:
        added, loaded = inner.weight, inner.loaded
        several_added, several_loaded = 0, loaded_bytes(operand, node.result)
    else:
        added, loaded = inner.weight, inner.loaded
        several_added, several_loaded = inner.several_weight, inner.several_loaded
    cone.weight = min(cone.weight + added, NEVER)
    cone.loaded = min(cone.loaded + loaded, NEVER)
    cone.several_weight = min(cone.several_weight + several_added, NEVER)
    cone.several_loaded = min(cone.several_loaded + several_loaded, NEVER)


def _count(value: Value) -> int:
    return assumed(product(value.tensor.shape))
