"""What each role runs and what it must receive: the first half of partition.

Assumes the sites of all values of an entry. Guarantees that a role which runs a node has, or receives, all that the
node uses, sizes that only the run finds out among it: nodes without a place are run wherever they are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.placement import Placement
from dfc.distribute.partition.model import RankRole
from dfc.distribute.partition.value_sites import ValueSites, sites_of_values
from dfc.distribute.place.cost import state_bytes
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.measured import Dependence, measured
from dfc.ir.regions import controls, flows, view
from dfc.ops.effects.communication import OwnRowsAttributes
from dfc.ops.effects.effects import effect
from dfc.ops.effects.queues import SIZE, TAKES
from dfc.ops.record import Effect

_ACTS = (Effect.WRITE, Effect.HOST)


@dataclass(slots=True)
class Needs:
    """`runs`: the nodes of each role. `crossing`: the roles that need a value from elsewhere. `feeds`: the roles that
    need a parameter of the entry. `results`: the roles each result comes from, several only where each has a piece.
    `awaited`: by role, what it receives where others take from a queue, before it goes on: where there is no more to
    take, it has changed nothing that stands behind. `dealt`: of each batch the roles that get rows of it."""

    sites: ValueSites
    runs: dict[RankRole, set[Node]]
    crossing: dict[Value, set[RankRole]] = field(default_factory=dict["Value", "set[RankRole]"])
    feeds: dict[Value, set[RankRole]] = field(default_factory=dict["Value", "set[RankRole]"])
    results: list[tuple[RankRole, ...]] = field(default_factory=list["tuple[RankRole, ...]"])
    dealt: dict[Node, set[RankRole]] = field(default_factory=dict[Node, "set[RankRole]"])
    awaited: dict[RankRole, dict[Node, Value]] = field(default_factory=dict[RankRole, "dict[Node, Value]"])

    def taking_part(self) -> tuple[RankRole, ...]:
        """The roles that have anything to do, in the order of ranks."""
        giving = {role for roles in self.results for role in roles}
        return tuple(role for role, nodes in self.runs.items() if nodes or role in giving)


def needs_of(entry: Entry, placement: Placement, roles: Sequence[RankRole], pieces: Collection[str] = ()) -> Needs:
    """`pieces` are the names of results of which every task has a part."""
    return _Finder(entry, placement, roles).run(pieces)


class _Finder:
    def __init__(self, entry: Entry, placement: Placement, roles: Sequence[RankRole]) -> None:
        self._block = entry.block
        self._names = entry.result_names
        self._placement = placement
        self._roles = roles
        self._needs = Needs(sites_of_values(entry.block, placement), {role: set() for role in roles})
        self._parameters = frozenset(entry.block.parameters)
        self._sizes = Dependence.within(entry.block)
        sizes = (node for node in walk.nodes(entry.block) if node.op == SIZE)
        self._sizes_behind = {node.operands[-1]: node.results[0] for node in sizes}

    def run(self, pieces: Collection[str]) -> Needs:
        for node in walk.nodes(self._block):
            if node.regions:
                self._region(node)
            elif node in self._placement.nodes and measured(node) is None:
                self._note_node(node)
        outputs = [value for value in self._block.outputs if not value.is_token]
        for name, value in zip(self._names, outputs, strict=True):
            giving = tuple(self._at(value)) if name in pieces else (self.speaker(value),)
            self._needs.results.append(giving)
            for role in giving:
                self._require(value, role)
        self._await_takes(self._block, set(), self._roles)
        return self._needs

    def _await_takes(self, block: Block, acting: set[RankRole], here: Sequence[RankRole]) -> None:
        """Has roles that change state, or speak, behind a take of another one wait for it. `acting` are those that do
        behind the block, and then those that do in it, too; `here` those that run the block."""
        for node in reversed(block.nodes):
            runs = [role for role in here if node in self._needs.runs[role]]
            if node.op in TAKES:
                for role in here:
                    if role in acting and role not in runs:
                        self._await(node, role)
            acting |= {role for role in runs if not node.regions and effect(node) in _ACTS}
            if node.regions:
                acting |= self._acting_in(node)  # the next iteration is behind this one
            for region in node.regions:
                self._await_takes(region, acting, runs)

    def _acting_in(self, node: Node) -> set[RankRole]:
        inside = [each for each in walk.nodes(Block((), [node])) if not each.regions and effect(each) in _ACTS]
        return {role for role in self._roles if not self._needs.runs[role].isdisjoint(inside)}

    def _await(self, take: Node, role: RankRole) -> None:
        values = [value for value in take.results if not value.is_token]
        if take.results[-1] in self._sizes_behind:
            values.append(self._sizes_behind[take.results[-1]])
        if any(role in roles and node.operands[0] in values for node, roles in self._needs.dealt.items()):
            return  # the rows that it gets stand right behind the take
        awaited = min(values, key=lambda value: state_bytes(value.tensor))
        known = [value for value in values if role in self._needs.crossing.get(value, ())]
        awaited = known[0] if known else awaited
        self._require(awaited, role)
        maker = awaited.node
        assert maker is not None
        self._needs.awaited.setdefault(role, {})[maker] = awaited

    def speaker(self, value: Value) -> RankRole:
        """The role that sends a value, or returns it."""
        site = self._needs.sites[value] or self._placement.default_site
        return next(r for r in self._roles if r.runs(site) and r.task in (None, site.task or 0))

    def _at(self, value: Value) -> list[RankRole]:
        """The roles at whose sites a value is."""
        site = self._needs.sites[value]
        return [role for role in self._roles if role.runs(site)]

    def _note_node(self, node: Node) -> None:
        for role in self._roles:
            if role.runs(self._placement.nodes[node]):
                self._needs.runs[role].add(node)
                if isinstance(node.attributes, OwnRowsAttributes) and not role.runs(
                    self._needs.sites[node.operands[0]]
                ):
                    self._needs.dealt.setdefault(node, set()).add(role)
                    continue
                for value in (*node.operands, *(v for result in node.results for v in self._sizes.of(result))):
                    self._require(value, role)

    def _region(self, node: Node) -> None:
        """A region runs in every role that runs something in it or owns one of its results."""
        taking_part = self._taking_part(node)
        for role in taking_part:
            self._needs.runs[role].add(node)
            for value in controls(view(node)):
                self._require(value, role)
        for flow in flows(view(node)):
            for role in self._at(flow.result) if not flow.result.is_token else ():
                for value in flow.outputs:
                    self._require(value, role)
                if flow.initial is not None:
                    self._require(flow.initial, role)

    def _taking_part(self, node: Node) -> list[RankRole]:
        sites = {self._needs.sites[value] for value in node.results if not value.is_token}
        for region in node.regions:
            for inner in walk.nodes(region):
                if inner.regions:
                    sites |= {self._needs.sites[value] for value in inner.results if not value.is_token}
                elif inner in self._placement.nodes and measured(inner) is None:
                    sites.add(self._placement.nodes[inner])
        return [role for role in self._roles if any(site is not None and role.runs(site) for site in sites)]

    def _require(self, value: Value, role: RankRole) -> None:
        """Notes that a role uses a value, and runs whatever floats behind it there."""
        pending = [value]
        while pending:
            current = pending.pop()
            if current.is_token:
                continue
            pending.extend(v for v in self._sizes.of(current) if not self._has(role, v))
            if not role.runs(self._needs.sites[current]):
                self._needs.crossing.setdefault(current, set()).add(role)
            elif current in self._parameters:
                self._needs.feeds.setdefault(current, set()).add(role)
            elif self._floats(current) and current.node not in self._needs.runs[role]:
                assert current.node is not None
                self._needs.runs[role].add(current.node)
                pending.extend(current.node.operands)

    def _has(self, role: RankRole, size: Value) -> bool:
        """Whether a role counts out a size already."""
        return size.node in self._needs.runs[role]

    def _floats(self, value: Value) -> bool:
        return value.node is not None and not value.node.regions and self._needs.sites[value] is None


def block_of_values(block: Block) -> dict[Value, Block]:
    """The block in which each value is defined."""
    blocks: dict[Value, Block] = {}
    for current in walk.blocks(block):
        blocks.update(dict.fromkeys(current.parameters, current))
        for node in current.nodes:
            blocks.update(dict.fromkeys(node.results, current))
    return blocks
