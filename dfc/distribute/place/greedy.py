"""Where the nodes of an entry go: a simulated run that gives each node to the site where it would be finished first.

The method of TensorFlow's white paper (section 3.2.1). Nodes are taken in program order. State, and what is placed by
name, is where it is; for any other node the feasible sites are compared: when the operands would be there, messages
included, when the site is free, and how long the node takes. Regions go as a whole, but for state inside them. Of equal
sites the first by rank wins, so that the same input always gives the same placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.distribute.deployment.model import Constraint, TaskSite
from dfc.distribute.pipelines.connected import state_of
from dfc.distribute.place.blocks import is_blockwise
from dfc.distribute.place.cost import Costs, nodes_inside
from dfc.distribute.place.model import Decision, PlacementConstraints
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.ops.rules.lookup import rules_of


class Run:
    """A simulated run of one entry. `state` are sites of state; `default_site` is where nodes go
    that nothing ties."""

    def __init__(
        self,
        entry: Entry,
        constraints: PlacementConstraints,
        state: Mapping[str, TaskSite],
        costs: Costs,
        default_site: TaskSite,
    ) -> None:
        self._entry = entry
        self._constraints = constraints
        self._state = state
        self._costs = costs
        self._default_site = default_site
        self._free = dict.fromkeys(constraints.tasks_in_order, 0.0)
        self._ready: dict[Value, tuple[TaskSite | None, float]] = {}
        self._feeds = frozenset(v for v in entry.block.parameters if not v.is_token)
        self._floating: set[Value] = set()
        self._users = _users(entry.block)
        self._groups = {
            constraints.together[name]: site for name, site in state.items() if name in constraints.together
        }
        self.nodes: dict[Node, TaskSite] = {}
        self.decisions: list[Decision] = []

    def run(self) -> None:
        for value in self._entry.block.parameters:
            self._ready[value] = (None, 0.0)
        for node in self._entry.block.nodes:
            if self._floats(node):
                self._floating.update(node.results)
                self._ready.update(dict.fromkeys(node.results, (None, 0.0)))
            else:
                self._place(node)

    def _floats(self, node: Node) -> bool:
        """Whether every task may make the value by itself: constants, what is made of them, small sums of feeds."""
        if node.regions or effect(node) not in (Effect.PURE, Effect.RANDOM) or node.name in self._constraints.values:
            return False
        if node.name in self._constraints.fixed:
            return False
        scalar = all(not v.is_token and not v.tensor.shape for v in (*node.operands, *node.results))
        return all(v in self._floating or (scalar and self._ready[v][0] is None) for v in node.operands)

    def _place(self, node: Node) -> None:
        site, reason, compared = self._choose(node)
        start, finish = self._times(node, site)
        self._groups.setdefault(self._constraints.together.get(node.name, node.name), site)
        for task in self._tasks(site):
            self._free[task] = finish
        for value in node.results:
            self._ready[value] = (site, finish)
        self.decisions.append(Decision(node.name, site, reason, start, finish, compared, node))
        self._assign_sites(node, site)

    def _choose(self, node: Node) -> tuple[TaskSite, str, tuple[tuple[TaskSite, float], ...]]:
        own = state_of(node)
        if own is not None and not node.regions:
            return self._state[own], f"with its state `{own}`", ()
        if node.name in self._constraints.fixed:
            reason = self._constraints.because.get(node.name, "beside rows that are divided")
            return self._constraints.fixed[node.name], reason, ()
        count = self._constraints.counts.get(self._entry.name)
        if count is not None and is_blockwise(node, count):
            return TaskSite(self._constraints.replicated[self._entry.name]), "each task does its own blocks", ()
        group = self._constraints.together.get(node.name, "")
        if group in self._groups:  # before its line, which says the same of all of them but may leave the task open
            return self._groups[group], f"together with `{group}`", ()
        constraint = self._constraints.values.get(node.name)
        if constraint is not None and constraint.job is not None:
            return self._asked(constraint, constraint.job), f"line {constraint.span.line} says so", ()
        feasible = self._feasible(node)
        compared = tuple((site, self._times(node, site)[1]) for site in feasible)
        if len(compared) == 1:
            return feasible[0], "beside all that it uses", compared
        chosen = min(compared, key=lambda each: each[1])[0]
        return chosen, "finished first here", compared

    def _asked(self, constraint: Constraint, job: str) -> TaskSite:
        """What a constraint on a value means: without a task, all of a replicated job or the first of another one."""
        anywhere = None if job in self._constraints.replicated.values() else 0
        return TaskSite(job, constraint.task if constraint.task is not None else anywhere)

    def _feasible(self, node: Node) -> list[TaskSite]:
        """Sites that can be best: where operands are, where state that takes the result is, and the default; in an
        entry that is not replicated, every task."""
        job = self._constraints.replicated.get(self._entry.name)
        near: dict[TaskSite, None] = {TaskSite(job) if job is not None else self._default_site: None}
        for value in walk.inputs(node):
            near.update({site: None for site in [self._ready[value][0]] if site is not None})
        for value in node.results:
            for user in self._users.get(value, ()):
                name = state_of(user)
                near.update({self._state[name]: None} if name is not None else {})
        if node.regions:
            inside = [state_of(inner) for inner in nodes_inside(node)]
            near.update({self._state[name]: None for name in inside if name is not None})
        elif job is None and not any(site.task is None for site in near):
            elastic = self._constraints.elastic
            near.update(
                {task: None for task in self._constraints.tasks_in_order if not task.task or task.job not in elastic}
            )
        return sorted(near, key=self._rank)

    def _rank(self, site: TaskSite) -> tuple[int, int]:
        return list(self._constraints.tasks).index(site.job), -1 if site.task is None else site.task

    def _times(self, node: Node, site: TaskSite) -> tuple[float, float]:
        """When a node would start and finish at a site, in seconds from the begin of the call."""
        arrived = max((self._arrival(value, site) for value in walk.inputs(node)), default=0.0)
        start = max(arrived, *(self._free[task] for task in self._tasks(site)))
        return start, start + self._costs.seconds(node)

    def _arrival(self, value: Value, site: TaskSite) -> float:
        if value not in self._ready:
            return 0.0
        source, time = self._ready[value]
        if value in self._feeds:  # the client has them: it runs in the task of rank 0
            return 0.0 if site == next(iter(self._free)) else self._costs.transfer(value)
        there = source is None or source == site or (source.job == site.job and source.task is None)
        return time if there or value.is_token else time + self._costs.transfer(value)

    def _tasks(self, site: TaskSite) -> list[TaskSite]:
        return [task for task in self._free if task.job == site.job and site.task in (None, task.task)]

    def _assign_sites(self, node: Node, site: TaskSite) -> None:
        """Gives a node, and all in its regions, their sites: state stays where it is, and constants float."""
        for inner in nodes_inside(node):
            name = state_of(inner) if not inner.regions else None
            constraint = self._constraints.values.get(inner.name)
            group = self._constraints.together.get(inner.name, "")
            if name is not None:
                self.nodes[inner] = self._state[name]
            elif inner.name in self._constraints.fixed:
                self.nodes[inner] = self._constraints.fixed[inner.name]
            elif group in self._groups and inner is not node:
                self.nodes[inner] = self._groups[group]
            elif constraint is not None and constraint.job is not None and inner is not node:
                self.nodes[inner] = self._asked(constraint, constraint.job)
            elif inner.operands or inner.regions or effect(inner) not in (Effect.PURE, Effect.RANDOM):
                self.nodes[inner] = TaskSite(site.job, site.task or 0) if self._is_reported_once(inner, node) else site

    def _is_reported_once(self, inner: Node, node: Node) -> bool:
        """Whether a node is host output that every task would repeat: that of the first one stands for all. In a loop
        over blocks each block has its own."""
        count = self._constraints.counts.get(self._entry.name)
        in_blocks = count is not None and bool(node.regions) and is_blockwise(node, count)
        return rules_of(inner).for_people and not in_blocks


def _users(block: Block) -> dict[Value, Sequence[Node]]:
    users: dict[Value, list[Node]] = {}
    for node in walk.nodes(block):
        for value in node.operands:
            users.setdefault(value, []).append(node)
    return dict(users)
