"""Blocks of the graph under construction, with the order of effects and the snapshots of variables in them.

Each effect consumes the resource's current token and makes the next one. The first use of a resource in a block makes
the token a parameter of the block; `close` sorts these parameters and hands the last tokens on as outputs. A read is
kept as a snapshot until the next write; a read inside a region that has not written the variable is taken from the
block around it, unless the variable is `pinned` because the body of a loop writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dfc.elaborate.state.variables import Variable
from dfc.ir import walk
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.names import NameSet, rename
from dfc.ir.types import TokenType, Type
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.builder import Builder

if TYPE_CHECKING:
    from dfc.elaborate.expressions.dependencies import Dependencies


class Sizes:
    """The sizes that are found out in an outermost block: the largest value of each, and the names that are taken."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.most: dict[Symbol, Dim] = {}

    def unused(self, name: str, refused: Callable[[str], bool]) -> str:
        """The name, with a number behind it if it is taken; it is taken from now on."""
        chosen, number = name, 0
        while chosen in self.taken or refused(chosen):
            number += 1
            chosen = f"{name}_{number}"
        self.taken.add(chosen)
        return chosen


class Region:
    """A block being filled. `measured` are the sizes found out in it; `sizes` belong to all blocks of an entry;
    `differentiated` are losses of which gradients were taken in it."""

    def __init__(self, parent: Region | None = None, pinned: frozenset[str] = frozenset()) -> None:
        self.parent = parent
        self.pinned = pinned
        self.block = Block()
        self.builder = Builder(self.block)
        self.parameters: list[Value] = []
        self.tokens: dict[str, Value] = {}
        self.entering: dict[str, Value] = {}
        self.snapshots: dict[str, Value] = {}
        self.written: set[str] = set()
        self.hoisted: set[str] = set()
        self.measured: set[Symbol] = set()
        self.differentiated: dict[Value, Dependencies] = {}
        self.sizes: Sizes = parent.sizes if parent is not None else Sizes()
        if parent is not None:
            self.builder.name, self.builder.span = parent.builder.name, parent.builder.span

    # ------------------------------------------------------------- effects --

    def token(self, resource: str) -> Value:
        """The current token of a resource in this block."""
        token = self.tokens.get(resource)
        if token is None:
            token = Value(TokenType(resource), resource)
            self.tokens[resource] = self.entering[resource] = token
        return token

    def advance(self, resource: str, token: Value) -> None:
        self.token(resource)
        self.tokens[resource] = token

    def wrote(self, resource: str) -> None:
        """Older snapshots no longer hold."""
        self.written.add(resource)
        self.snapshots.pop(resource, None)

    def read(self, variable: Variable) -> Value:
        """The value of a variable at this point of the program."""
        name = variable.name
        snapshot = self.snapshots.get(name)
        if snapshot is None:
            if self.parent is not None and name not in self.written and name not in self.pinned:
                self.hoisted.add(name)
                self.parent.follow(self)
                snapshot = self.parent.read(variable)
            else:
                snapshot = self._read_here(variable)
            self.snapshots[name] = snapshot
        return snapshot

    def _read_here(self, variable: Variable) -> Value:
        node = self.builder.add(
            "read",
            (self.token(variable.name),),
            (variable.type, TokenType(variable.name)),
            ResourceAttributes(variable.name),
        )
        node.results[0].name = f"{self.builder.name}:{variable.name}"
        self.advance(variable.name, node.results[1])
        return node.result

    def follow(self, inner: Region) -> None:
        """Nodes added on behalf of an inner region carry its name and place."""
        self.builder.name, self.builder.span = inner.builder.name, inner.builder.span

    # -------------------------------------------------------------- ending --

    def close(self, outputs: Sequence[Value], resources: Iterable[str]) -> Block:
        """The finished block: parameters and outputs end with the tokens of `resources`, sorted."""
        ordered = sorted(resources)
        for resource in ordered:
            self.token(resource)
        self.block.parameters = (*self.parameters, *(self.entering[resource] for resource in ordered))
        self.block.outputs = (*outputs, *(self.tokens[resource] for resource in ordered))
        return self.block

    # ------------------------------------------------------------ rollback --

    def mark(self) -> Mark:
        """Remembers the state of this block and of those around it."""
        return Mark(self)

    @property
    def chain(self) -> list[Region]:
        regions: list[Region] = []
        region: Region | None = self
        while region is not None:
            regions.append(region)
            region = region.parent
        return regions


class Mark:
    """Takes regions back to the moment it was made."""

    def __init__(self, region: Region) -> None:
        self._sizes = region.sizes
        self._taken, self._most = set(region.sizes.taken), dict(region.sizes.most)
        self._saved = [
            (
                each,
                len(each.block.nodes),
                dict(each.tokens),
                dict(each.entering),
                dict(each.snapshots),
                set(each.written),
                set(each.hoisted),
            )
            for each in region.chain
        ]

    def restore(self) -> None:
        self._sizes.taken, self._sizes.most = self._taken, self._most
        for region, nodes, tokens, entering, snapshots, written, hoisted in self._saved:
            del region.block.nodes[nodes:]
            region.tokens, region.entering, region.snapshots = tokens, entering, snapshots
            region.written, region.hoisted = written, hoisted


def parameter(region: Region, type_: Type, name: str) -> Value:
    """Adds a parameter in front of the tokens."""
    value = Value(type_, name)
    region.parameters.append(value)
    return value


def touched(regions: Iterable[Region]) -> list[str]:
    """The resources with an effect in any of the regions, sorted."""
    return sorted({resource for region in regions for resource in region.entering})


def tokens_after(parent: Region, node: Node, resources: Sequence[str], regions: Iterable[Region]) -> None:
    """Lets the effects after a region node wait for those inside it."""
    first = len(node.results) - len(resources)
    for offset, resource in enumerate(resources):
        parent.advance(resource, node.results[first + offset])
    for region in regions:
        for resource in region.written:
            parent.wrote(resource)


def unique_names(block: Block, bound: Mapping[str, Value]) -> None:
    """The last node of a statement keeps its name; those it is made of, and what is inside it, are told apart by op. A
    name that the author has `bound` means his value alone: `let low, steps = loop ..` makes two names for one node."""
    nodes = list(walk.nodes(block))
    inner_first = reversed(list(walk.blocks(block)))
    last = {node.name: node for each in inner_first for node in each.nodes}
    taken = {name: value.node for name, value in bound.items()}
    names = NameSet({**last, **taken})
    for node in nodes:
        if taken.get(node.name, last[node.name]) is not node:
            rename(node, names.fresh(f"{node.name}/{node.op}"))
