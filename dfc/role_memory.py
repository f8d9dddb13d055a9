"""What roles would need if nothing was received later than it can be: what delaying receives saves.

Assumes graphs that `partition` made. Guarantees formulas over the names of the role's own entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc import pipeline
from dfc.backend.formulas import formula, name_symbols
from dfc.ir.graph import Graph
from dfc.passes.partition import Role
from dfc.passes.partition.early import with_early_receives
from dfc_runtime.formulas import Formula


def early_memory(graphs: Mapping[Role, Graph]) -> dict[tuple[str, str], Formula]:
    """Bytes of working memory by role and entry, for entries that receive anything, with all of it at the start."""
    found: dict[tuple[str, str], Formula] = {}
    for role, graph in graphs.items():
        early = with_early_receives(graph)
        changed = {name: each for name, each in early.entries.items() if each is not graph.entries[name]}
        for entry in pipeline.scheduled(replace(early, entries=changed)).entries if changed else ():
            names = name_symbols([*entry.dims, *(symbol for symbol, _ in entry.measured)])
            found[role.name, entry.name] = formula(entry.arena, names)
    return found
