"""Where everything is: the decision of placement, and what partition takes apart.

Assumes the nodes of one graph. A node that is not mentioned floats: every task that needs its value computes it, from
feeds and constants alone. Guarantees nothing by itself; `check_parts` of the partition says what has to hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.deployment.model import TaskSite
from dfc.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Placement:
    """`tasks` is how many tasks each job has, in the order of their ranks; `state` and `nodes` say where state and
    nodes are (those in regions too). `default_site` is where an entry runs that nothing ties to a site."""

    tasks: Mapping[str, int]
    state: Mapping[str, TaskSite]
    nodes: Mapping[Node, TaskSite]
    default_site: TaskSite
