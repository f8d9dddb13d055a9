"""Staged variables: the loss is computed from variables as they were a step ago, so that nothing waits for an update.

    let y = w * x                                let y = staged[w] * x          # w as the last step began
    let dw = grad(y, w)                   ->     staged[w] := w
    w -= rate * dw                               let dw = grad(y, staged[w])
                                                 w -= rate * dw

So a step is w[t+1] = w[t] - rate * g(w[t-1]), with w[-1] = w[0]: SGD whose gradients come one step late. What only
updates read (slots, a decay of weights that is no part of the loss) is of this step. Assumes the graph as it was
elaborated. Guarantees one more piece of state for each variable that gradients are taken at, saved like it, and set
by `init` to the same value.

In the mode `mirrored` copies are never late: they take the values that variables have at the end of each entry that
changes these, so that a step has the numbers of `sync`, and begins with what is in its own task.

    let y = w * x                                let y = copy[w] * x
    let dw = grad(y, w)                   ->     let dw = grad(y, copy[w])
    w -= rate * dw                               w -= rate * dw
                                                 copy[w] := w
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate.checkpoints import checkpoint_copies
from dfc.distribute.separate.cone import Cone, gradient_cone
from dfc.distribute.separate.reads import ReadsReplaced, variable_read_by
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Graph, Node, Resource, Value
from dfc.ir.rewrite import Cloner, Pass, rebuild
from dfc.ir.types import TokenType
from dfc.ops.attributes import AssignAttributes, ResourceAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.checkpoints import saved_state
from dfc_runtime.module import INIT


def staged_name(variable: str) -> str:
    """The state that holds a variable as it was a step ago. It lies, and is divided, as the variable is."""
    return f"staged[{variable}]"


def copy_name(variable: str) -> str:
    """The state that holds a variable as it is, for tasks that have a copy of it."""
    return f"copy[{variable}]"


def stage_variables(graph: Graph, statements: Sequence[Replicate]) -> Graph:
    """The graph whose entries of these statements read variables of the last step; raises `CompileError`."""
    changed, names = _with_copies(graph, statements, staged_name, "as it was when the last step began")
    if INIT in changed.entries:  # parts of programs have none
        changed.entries[INIT] = _Staging(changed.entries[INIT], graph.resources, staged_name).entry_that_copies(names)
    return changed


def mirror_variables(graph: Graph, statements: Sequence[Replicate]) -> Graph:
    """The graph whose entries of these statements read copies of variables, which all entries that change the variables
    set at their end; raises `CompileError`."""
    changed, names = _with_copies(graph, statements, copy_name, "as it is")
    for entry in list(changed.entries.values()):
        written = () if entry.readonly else _written(entry)
        if copied := [name for name in names if name in written or entry.name == INIT]:
            changed.entries[entry.name] = _Staging(entry, graph.resources, copy_name).entry_that_copies(copied)
    return changed


def _with_copies(
    graph: Graph, statements: Sequence[Replicate], name_of: Callable[[str], str], meaning: str
) -> tuple[Graph, list[str]]:
    """The graph with a copy of each variable that losses of these entries are computed from; the variables."""
    changed = replace(graph, resources=dict(graph.resources), entries=dict(graph.entries), bound=dict(graph.bound))
    for statement in statements:
        entry = graph.entries[statement.entry]
        cone = gradient_cone(entry, graph.resources, statement)
        for name in cone.variables:
            changed.resources[name_of(name)] = _copied_resource(graph.resources[name], name_of(name), meaning)
        staging = _Staging(entry, graph.resources, name_of)
        changed.entries[entry.name] = staging.entry_over(cone)
        changed.bound.update({name: staging.values.get(value, value) for name, value in changed.bound.items()})
    copies = {name: name_of(name) for name in graph.resources if name_of(name) in changed.resources}
    changed.entries.update({name: checkpoint_copies(entry, copies) for name, entry in changed.entries.items()})
    return changed, list(copies)


def _written(entry: Entry) -> set[str]:
    """State that an entry changes, or may; what it restores, copies included, are no changes of it."""
    nodes = (node for node in walk.nodes(entry.block) if node.op != "read" and not saved_state(node))
    return {value.resource for node in nodes for value in node.results if value.is_token}


def _copied_resource(variable: Resource, name: str, meaning: str) -> Resource:
    initial = Cloner().block(variable.initial) if variable.initial is not None else None
    return replace(variable, name=name, trained=False, initial=initial, doc=f"`{variable.name}` {meaning}.")


class _Staging:
    """One entry on its way. `values` are what its values have become."""

    def __init__(self, entry: Entry, resources: Mapping[str, Resource], name_of: Callable[[str], str]) -> None:
        self.values: dict[Value, Value] = {}
        self._entry = entry
        self._resources = resources
        self._name_of = name_of
        self._output = Builder(Block(), span=entry.span)
        self._begins = {value.resource: value for value in entry.block.parameters if value.is_token}
        self._ends = {value.resource: value for value in entry.block.outputs if value.is_token}

    def entry_over(self, cone: Cone) -> Entry:
        """The entry whose losses are computed from copies. Staged ones are replaced by what it begins with."""
        reads: dict[str, Value] = {}
        for name in cone.variables:
            token = self._begins[name]
            copy = self._name_of(name)
            own = self._begins[copy] = Value(TokenType(copy))
            reads[name], self._ends[copy] = self._read(name, own, is_copy=True)
            if self._name_of is staged_name:
                current, self.values[token] = self._read(name, token)
                self._ends[copy] = self._stage(name, current, self._ends[copy])
        reading = ReadsReplaced(reads)
        for node in self._entry.block.nodes:
            if node in cone.nodes and node.op != "read":  # updates may use the read, too; unused ones are dropped
                self._keep_over(node, reads, reading)
            else:
                self._output.block.nodes += rebuild(Block((), [node]), Pass(), self.values).nodes
        self._ends = {name: self.values.get(value, value) for name, value in self._ends.items()}
        return self._changed()

    def entry_that_copies(self, names: Sequence[str]) -> Entry:
        """The entry with copies set to what the variables are at its end."""
        self._output.block.nodes += self._entry.block.nodes
        for name in names:
            copy = self._name_of(name)
            if copy not in self._begins:
                self._begins[copy] = self._ends[copy] = Value(TokenType(copy))
            current, self._ends[name] = self._read(name, self._ends[name])
            self._ends[copy] = self._stage(name, current, self._ends[copy])
        return self._changed()

    def _read(self, name: str, token: Value, *, is_copy: bool = False) -> tuple[Value, Value]:
        """The value of a variable, or of its copy, and the token behind that."""
        kind = self._name_of("").removesuffix("[]") if is_copy else "current"
        self._output.name = f"{self._entry.name}/{kind}/{name}"
        attributes = ResourceAttributes(self._name_of(name) if is_copy else name)
        types = (self._resources[name].type, token.type)
        value, behind = self._output.add("read", (token,), types, attributes).results
        return value, behind

    def _stage(self, name: str, value: Value, token: Value) -> Value:
        """Keeps the value of a variable for the next step; the token behind that."""
        self._output.name = f"{self._entry.name}/stage/{name}"
        attributes = AssignAttributes(self._name_of(name), ":=")
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
