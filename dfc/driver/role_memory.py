"""Memory of roles: what each of their tasks needs, and what it would need if nothing was received as late as it can be.

Assumes graphs that `partition` made. Guarantees formulas over the names of the role's own entry, and needs that no task
of the role stays below: a size that no number is known for counts as 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from dfc.bundle.formulas import formula, name_symbols
from dfc.bundle.target import kernel_forms
from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import Job
from dfc.distribute.partition import RankRole
from dfc.distribute.partition.early import with_early_receives
from dfc.distribute.place import Costs, PlacementError
from dfc.distribute.place.cost import state_bytes
from dfc.distribute.replicate import Combination, Replication
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Graph
from dfc.kernels.program import EntryProgram
from dfc.lower.lowering_cache import LoweringCache
from dfc.lower.program import lower_graph
from dfc_runtime.calls.formulas import Formula

SUMMING = 2
"""Arrays of the size of a sum that a task has while it is made with others: what it adds to, and the result."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of a task of a role: `working` memory and `messages` are those of the `entry` that needs the most."""

    state: int
    constants: int
    entry: str
    working: int
    messages: int

    @property
    def total(self) -> int:
        return self.state + self.constants + self.working + self.messages

    def __str__(self) -> str:
        parts = [f"{self.state:,} of state"]
        parts += [f"{self.constants:,} of constants"] if self.constants else []
        parts += [f"{self.working:,} for `{self.entry}` to work in"] if self.working else []
        parts += [f"{self.messages:,} for its messages"] if self.messages else []
        return ", ".join(parts)


def check_memory(
    graphs: Mapping[RankRole, Graph],
    jobs: Mapping[str, Job],
    replicated: Mapping[str, Replication],
    costs: Costs,
    cache: LoweringCache,
) -> None:
    """Raises `PlacementError` for a role whose tasks need more than their job has. What is made of the rest is kept in
    `cache`."""
    for role, graph in graphs.items():
        limit = jobs[role.job].memory
        needs = needed(graph, jobs[role.job], replicated, costs, cache) if limit else None
        if needs is not None and needs.total > limit:
            text = f"`{role.name}` needs at least {needs.total:,} bytes ({needs}), but has {limit:,}"
            raise PlacementError(role.job, text)


def needed(graph: Graph, job: Job, replicated: Mapping[str, Replication], costs: Costs, cache: LoweringCache) -> Needs:
    """What a task of a role needs at least, with the sizes that are known."""
    program = cache.program(graph, kernel_forms("cpu"))
    state = sum(state_bytes(resource.type) for resource in graph.resources.values())
    constants = sum(each.array.nbytes for each in program.constants)
    most = Needs(state, constants, "", 0, 0)
    for entry in program.entries:
        sizes = costs.of_entry(entry.name).sizes
        replication = replicated.get(entry.name)
        sums = (
            replication.combinations
            if replication is not None and replication.job == job.name and job.tasks > 1
            else ()
        )
        own = Needs(state, constants, entry.name, _at(entry.arena, sizes), _summed(sums, sizes))
        most = max(most, own, key=lambda each: each.total)
    return most


def _summed(combinations: Iterable[Combination], sizes: Mapping[Symbol, int]) -> int:
    each = (prod(_at(size, sizes) for size in c.type.shape) * c.type.machine.size for c in combinations)
    return SUMMING * sum(each)


def _at(size: Dim, sizes: Mapping[Symbol, int]) -> int:
    return size.evaluate({symbol: sizes.get(symbol, 1) for symbol in size.symbols()})


def early_memory(graphs: Mapping[RankRole, Graph]) -> dict[tuple[str, str], Formula]:
    """Bytes of working memory by role and entry, for entries that receive anything, with all of it at the start."""
    memory: dict[tuple[str, str], Formula] = {}
    for role, graph in graphs.items():
        early = with_early_receives(graph)
        changed = {name: each for name, each in early.entries.items() if each is not graph.entries[name]}
        for entry in _entries(replace(early, entries=changed)) if changed else ():
            names = name_symbols([*entry.dims, *(symbol for symbol, _ in entry.measured)])
            memory[role.name, entry.name] = formula(entry.arena, names)
    return memory


def _entries(graph: Graph) -> Sequence[EntryProgram]:
    """The entries of a graph with their memory on processors."""
    return lower_graph(graph, forms=kernel_forms("cpu")).entries
