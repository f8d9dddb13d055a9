"""What a deployment file means for one program: the constraint on every state and value, and the lines behind it.

Made by `resolve`; read by placement, replication, sharding and partition. Names survive all passes: a node keeps its
name, and one that a pass makes of another has that one's name as the beginning of its own, as `train/h/matmul/grad` of
`train/h/matmul`. Guarantees that the same question about a name of an optimised graph has an answer: such a node
inherits what holds for the one it was made of. Where a pass merges equal values, the name that is left is the one that
is asked about, and what was said of the others is without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.lines import Best, Lines
from dfc.distribute.deployment.model import Colocate, Compress, Constraint, Deployment, PlaceStatement, Replicate, Shard
from dfc.distribute.deployment.task_devices import Devices

Cause: TypeAlias = PlaceStatement | Shard | Colocate


@dataclass(frozen=True, slots=True)
class ResolvedConstraint:
    """Where something may be, and every statement that says so."""

    constraint: Constraint
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """What has to be on one device: names of nodes and state, in the order of the program, and the lines that join
    them. `resolved` is what holds for all of them, None if they may be anywhere, but together."""

    members: tuple[str, ...]
    links: tuple[Colocate, ...]
    resolved: ResolvedConstraint | None


@dataclass
class Resolution:
    """`resolved_constraints` are by name of state and node, for those that stand in no group; `groups` by name of each
    member; `devices` are what tasks work on."""

    deployment: Deployment
    lines: Lines
    resolved_constraints: Mapping[str, ResolvedConstraint]
    groups: Mapping[str, Group]
    shards: Mapping[str, Shard]
    replications: Mapping[str, Replicate]
    compressions: Mapping[tuple[str, str], Compress]
    devices: Devices
    _sources: dict[str, str | Best | None] = field(default_factory=dict[str, "str | Best | None"])

    def constraint_on(self, name: str) -> ResolvedConstraint | None:
        """What holds for a state or a node, also one that a pass made."""
        source = self._source_of(name)
        if isinstance(source, str):
            group = self.groups.get(source)
            return self.resolved_constraints.get(source) if group is None else group.resolved
        return None if source is None else self._of_lines(source)

    def group(self, name: str) -> Group | None:
        """What has to be where this is, or None if it is alone."""
        source = self._source_of(name)
        if isinstance(source, str):
            return self.groups.get(source)
        return None if source is None else self._leader(source)

    def _source_of(self, name: str) -> str | Best | None:
        """The thing whose constraint holds for a name, or the lines that hold for this name alone."""
        if name not in self._sources:
            thing = self.lines.names.by_name.get(name)
            self._sources[name] = thing.name if thing is not None else self._inherited(name)
        return self._sources[name]

    def _inherited(self, name: str) -> str | Best | None:
        """For a node that the program did not have: what holds for the node it was made of, unless a glob says more."""
        own = self.lines.matching(name)
        origin = self.lines.origin(name)
        if origin is None:
            return own
        inherited = self.lines.best.get(origin)
        if own is None or (inherited is not None and inherited.specificity >= own.specificity):
            return origin
        return own

    def _of_lines(self, best: Best) -> ResolvedConstraint | None:
        leader = self._leader(best)
        if leader is not None:
            return leader.resolved
        asked = best.placements()
        return ResolvedConstraint(asked[0].where, tuple(asked)) if asked else None

    def _leader(self, best: Best) -> Group | None:
        for line in best.colocations():
            thing = self.lines.names.find(line.name)
            if thing is not None and thing.name in self.groups:
                return self.groups[thing.name]
        return None
