"""What the stages fuse, schedule and buffers make of graphs before their turn: whoever needs to know the memory of a
graph has them run, and the stages go on with what was made.

Assumes graphs that nobody changes. Guarantees that what was made is kept until its stage takes it, or the compilation
ends.
"""

from __future__ import annotations

from collections.abc import Collection

from dfc.ir.graph import Graph
from dfc.kernels.program import Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import Fused
from dfc.lower.schedule.schedule import Scheduled, schedule


class LoweringCache:
    """What was made of graphs, and of what was made of them; by identity, with the kernel forms of the target."""

    def __init__(self) -> None:
        self._fused: dict[tuple[int, frozenset[str]], tuple[Graph, Fused]] = {}
        self._scheduled: dict[tuple[int, frozenset[str]], tuple[Fused, Scheduled]] = {}
        self._programs: dict[int, tuple[Scheduled, Program]] = {}

    def program(self, graph: Graph, forms: Collection[str]) -> Program:
        """What `buffers` leaves of a graph, made now and kept for the stages."""
        fused = fuse(graph, forms=forms)
        scheduled = schedule(fused, forms=forms)
        program = assign_buffers(scheduled)
        self._fused[id(graph), frozenset(forms)] = graph, fused  # which holds the graph, so that its identity stays
        self._scheduled[id(fused), frozenset(forms)] = fused, scheduled
        self._programs[id(scheduled)] = scheduled, program
        return program

    def fuse(self, graph: Graph, forms: Collection[str]) -> Fused:
        known = self._fused.pop((id(graph), frozenset(forms)), None)
        return fuse(graph, forms=forms) if known is None else known[1]

    def schedule(self, fused: Fused, forms: Collection[str]) -> Scheduled:
        known = self._scheduled.pop((id(fused), frozenset(forms)), None)
        return schedule(fused, forms=forms) if known is None else known[1]

    def assign_buffers(self, scheduled: Scheduled) -> Program:
        known = self._programs.pop(id(scheduled), None)
        return assign_buffers(scheduled) if known is None else known[1]
