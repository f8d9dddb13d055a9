"""What the first call of a replicated entry finds out where the compiler could not see it: whether its gradients are
means over the batch or sums. It needs a part of the entry that gives the gradients, precompiled.

Assumes a distributed program. Guarantees parts that change no state: an entry whose gradients draw random numbers,
look at what it has written, print, or are taken inside a loop, has none, and is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc.bundle.writing import Bundle
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.driver.cluster_parts import Surroundings, compiled, described
from dfc.driver.many_ranks import DistributedProgram
from dfc.driver.selection import Selection, select
from dfc.ir import walk
from dfc.ir.graph import Entry
from dfc.ir.options import CompileOptions
from dfc.ops.control.derivatives import is_grad
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc_runtime.errors import FeedError
from dfc_runtime.formats.cluster import CombineCheck, PrecompiledPart


@dataclass(frozen=True, slots=True)
class Compiled:
    """A check, and the part that it calls."""

    check: CombineCheck
    part: PrecompiledPart
    bundle: Bundle


def combine_checks(
    around: Surroundings, distributed: DistributedProgram, options: CompileOptions
) -> Mapping[str, Compiled]:
    """By entry, for those of which it is not seen what their gradients are, and which can be checked."""
    checks: dict[str, Compiled] = {}
    for name, replication in distributed.replicated.items():
        part = _gradients(around, around.built.entries[name]) if replication.remarks else None
        if part is None:
            continue
        try:
            bundle = compiled(part, around, options)
        except CompileError:
            continue  # as a part it cannot be distributed: rows of a table that would have to be in one place, say
        statement = distributed.resolution.replications[name]
        names = tuple(names[0] for names in part.fetched)
        check = CombineCheck(statement.combine, names, str(statement.setting_span("combine")))
        checks[name] = Compiled(check, described(part), bundle)
    return checks


def _gradients(around: Surroundings, entry: Entry) -> Selection | None:
    """The part of an entry that computes its gradients from its feeds; None if it does more."""
    values = [value for node in entry.block.nodes if is_grad(node) for value in node.results]
    if not values or entry.dim_feeds:
        return None
    try:
        part = select(around.built, [value.name for value in values], list(entry.parameter_names))
    except FeedError:
        return None
    inside = walk.nodes(part.graph.entries[part.entry].block)
    return None if any(effect(node) in (Effect.WRITE, Effect.HOST) for node in inside) else part
