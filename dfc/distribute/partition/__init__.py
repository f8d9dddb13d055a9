"""partition: one graph for all tasks becomes one graph for each role, with messages where values cross.

    entry step(x: f32[4]) {                       # job a                        # job b
      let y: f32[4] = exp(x)      # on a          entry step(x: f32[4]) {       entry step() {
      let z: f32[4] = sin(y)      # on b    ->      let y: f32[4] = exp(x)        let y: f32[4] = graph.recv(..)
      graph.assign(z, "w")        # on b            graph.send(y, ..)             let z: f32[4] = sin(y)
    }                                             }                               graph.assign(z, "w")
                                                                                }

A pure function of graph and placement; nothing of MPI is in it. Assumes a verified graph after all passes. Guarantees
one send and one receive for each value and role that needs it from elsewhere; every role keeps the program order of its
nodes, a receive stands right before its first use, a send right behind the value. Regions that span tasks run in each
of them, with the carried values it owns; the owner of a loop's condition sends it to the others in every iteration.

In: a graph and its placement. Out: `RankGraphs`. Read first: `split`, then `needs`, `build` and `check_parts`.
"""

from dfc.distribute.partition.model import Edge, EntryParts, RankGraphs, RankRole
from dfc.distribute.partition.split import partition

__all__ = ["Edge", "EntryParts", "RankGraphs", "RankRole", "partition"]
