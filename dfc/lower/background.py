"""What runners share with others: state that they write, and state that they read and others write.

Whoever reads state from Python is among the others. Queues are not among it, which have locks of their own. The entry
`init` does not count: nothing runs in the background while it does.
"""

from __future__ import annotations

from dfc.ir.graph import Graph, ResourceKind
from dfc.lower.signatures import state_used

INIT = "init"


def background_state(graph: Graph) -> frozenset[str]:
    """The full names of the state of a program that is read and written piece by piece, each under its lock."""
    used = {name: tuple(map(set, state_used(entry))) for name, entry in graph.entries.items() if name != INIT}
    shared: set[str] = set()
    for name, (read, written) in used.items():
        if graph.entries[name].is_runner:
            elsewhere = [others_written for other, (_, others_written) in used.items() if other != name]
            shared |= written | read & set[str]().union(*elsewhere)
    return frozenset(name for name in shared if graph.resources[name].kind is not ResourceKind.QUEUE)
