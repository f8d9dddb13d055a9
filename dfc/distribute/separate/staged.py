"""Staged variables: the loss is computed from variables as they were a step ago, so that nothing waits for an update.

    let y = w * x                                let y = staged[w] * x          # w as the last step began
    let dw = grad(y, w)                   ->     staged[w] := w
    w -= rate * dw                               let dw = grad(y, staged[w])
                                                 w -= rate * dw

So a step is w[t+1] = w[t] - rate * g(w[t-1]), with w[-1] = w[0]: SGD whose gradients come one step late. What only
updates read (slots, a decay of weights that is no part of the loss) is of this step. Assumes the graph as it was
elaborated. Guarantees one more piece of state for each variable that gradients are taken at, saved like it, and set
by `init` to the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate.cone import Cone, gradient_cone
from dfc.distribute.separate.reads import ReadsReplaced, resource_of, variable_read_by
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Graph, Node, Resource, Value
from dfc.ir.rewrite import Cloner, Pass, rebuild
from dfc.ir.types import TokenType
from dfc.ops.attributes import AssignAttributes, ResourceAttributes
from dfc.ops.builder import Builder
from dfc_runtime.module import INIT


def staged_name(variable: str) -> str:
    """The state that holds a variable as it was a step ago. It lies, and is divided, as the variable is."""
    return f"staged[{variable}]"


def stage_variables(graph: Graph, statements: Sequence[Replicate]) -> Graph:
    """The graph whose entries of these statements read variables of the last step; raises `CompileError`."""
    changed = replace(graph, resources=dict(graph.resources), entries=dict(graph.entries), bound=dict(graph.bound))
    for statement in statements:
        entry = graph.entries[statement.entry]
        cone = gradient_cone(entry, graph.resources, statement)
        for name in cone.variables:
            changed.resources[staged_name(name)] = _staged_resource(graph.resources[name])
        staging = _Staging(entry, graph.resources)
        changed.entries[entry.name] = staging.entry_over(cone)
        changed.bound.update({name: staging.values.get(value, value) for name, value in changed.bound.items()})
    names = [name for name in graph.resources if staged_name(name) in changed.resources]
    if INIT in graph.entries:  # parts of programs have none
        changed.entries[INIT] = _Staging(graph.entries[INIT], graph.resources).entry_that_initialises(names)
    return changed


def _staged_resource(variable: Resource) -> Resource:
    name, doc = staged_name(variable.name), f"`{variable.name}` as it was when the last step began."
    initial = Cloner().block(variable.initial) if variable.initial is not None else None
    return replace(variable, name=name, trained=False, initial=initial, doc=doc)


class _Staging:
    """One entry on its way. `values` are what its values have become."""

    def __init__(self, entry: Entry, resources: Mapping[str, Resource]) -> None:
        self.values: dict[Value, Value] = {}
        self._entry = entry
        self._resources = resources
        self._output = Builder(Block(), span=entry.span)
        self._begins = {resource_of(value): value for value in entry.block.parameters if value.is_token}
        self._ends = {resource_of(value): value for value in entry.block.outputs if value.is_token}

    def entry_over(self, cone: Cone) -> Entry:
        """The entry whose losses are computed from staged variables, which it replaces by what it begins with."""
        reads: dict[str, Value] = {}
        for name in cone.variables:
            token = self._begins[name]
            own = self._begins[staged_name(name)] = Value(TokenType(staged_name(name)))
            reads[name], own = self._read(name, own, staged=True)
            current, self.values[token] = self._read(name, token)
            self._ends[staged_name(name)] = self._stage(name, current, own)
        reading = ReadsReplaced(reads)
        for node in self._entry.block.nodes:
            if node in cone.nodes and node.op != "read":  # updates may use the read, too; unused ones are dropped
                self._keep_over(node, reads, reading)
            else:
                self._output.block.nodes += rebuild(Block((), [node]), Pass(), self.values).nodes
        self._ends = {name: self.values.get(value, value) for name, value in self._ends.items()}
        return self._changed()

    def entry_that_initialises(self, names: Sequence[str]) -> Entry:
        """The entry that starts over, with staged variables set to what the variables are at its end."""
        self._output.block.nodes += self._entry.block.nodes
        for name in names:
            own = self._begins[staged_name(name)] = Value(TokenType(staged_name(name)))
            current, self._ends[name] = self._read(name, self._ends[name])
            self._ends[staged_name(name)] = self._stage(name, current, own)
        return self._changed()

    def _read(self, name: str, token: Value, *, staged: bool = False) -> tuple[Value, Value]:
        """The value of a variable, now or a step ago, and the token behind that."""
        self._output.name = f"{self._entry.name}/{'staged' if staged else 'current'}/{name}"
        attributes = ResourceAttributes(staged_name(name) if staged else name)
        types = (self._resources[name].type, token.type)
        value, behind = self._output.add("read", (token,), types, attributes).results
        return value, behind

    def _stage(self, name: str, value: Value, token: Value) -> Value:
        """Keeps the value of a variable for the next step; the token behind that."""
        self._output.name = f"{self._entry.name}/stage/{name}"
        attributes = AssignAttributes(staged_name(name), ":=")
        return self._output.add("assign", (value, token), (token.type,), attributes).result

    def _keep_over(self, node: Node, reads: Mapping[str, Value], reading: ReadsReplaced) -> None:
        """A node on the way to a loss: reads that it uses are staged ones, there and nowhere else."""
        staged = {
            value: reads[name]
            for value in walk.inputs(node)
            if not value.is_token and (name := variable_read_by(value.node)) in reads
        }
        current = {value: self.values[value] for value in staged if value in self.values}
        self.values.update(staged)
        self._output.block.nodes += rebuild(Block((), [node]), reading, self.values).nodes
        for value in staged:
            del self.values[value]
        self.values.update(current)

    def _changed(self) -> Entry:
        block, output = self._entry.block, self._output.block
        feeds = (value for value in block.parameters if not value.is_token)
        results = (self.values.get(value, value) for value in block.outputs if not value.is_token)
        parameters = (*feeds, *(self._begins[name] for name in sorted(self._begins)))
        outputs = (*results, *(self._ends[name] for name in sorted(self._ends)))
        return replace(self._entry, block=Block(parameters, output.nodes, outputs))
