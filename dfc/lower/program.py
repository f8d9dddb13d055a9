"""The program of a graph in one call, for whoever asks what a graph would need without compiling it.

Assumes a verified graph after `expand`.
"""

from __future__ import annotations

from collections.abc import Collection

from dfc.ir.graph import Graph
from dfc.kernels.program import Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.fuse.fuse import fuse
from dfc.lower.legalise.stage import legalise
from dfc.lower.schedule.schedule import schedule


def lower_graph(graph: Graph, *, fusing: bool = True, forms: Collection[str] = ()) -> Program:
    """The stages fuse, schedule, buffers and legalise on a graph; with `fusing` off nothing is written in place
    either. `forms` are those of a target besides loops and contractions."""
    return legalise(assign_buffers(schedule(fuse(graph, fusing=fusing, forms=forms), forms=forms), in_place=fusing))
