"""check_gradients: tells the author where a gradient has no path, before anything is rewritten.

Codes: E0501 the loss does not depend on the target; E0502 it does, but every path leads through an op without a
gradient; E0504 the loss reads the target's variable before and after a write, or only in another version.
Changes nothing: it must see the graph as it was written, for folding may remove a path that the author sees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from dfc.diagnostics import Diagnostic, error
from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ops import registry
from dfc.ops.attributes import CastAttributes, ResourceAttributes
from dfc.passes.autodiff import ancestors
from dfc.passes.matching import GRADIENT_OPS
from dfc.passes.reverse import carries_gradient
from dfc.passes.versions import Versions, read_versions

NAME = "check_gradients"


def check_gradients(graph: Graph) -> list[Diagnostic]:
    """Every gradient of the program that cannot be taken."""
    return [message for _, block in walk.graph_blocks(graph) for message in _check_block(block)]


def _check_block(block: Block) -> Iterator[Diagnostic]:
    gradients = [node for node in walk.nodes(block) if node.op in GRADIENT_OPS]
    if gradients:
        versions = read_versions(block)
        for node in gradients:
            yield from _Check(node, versions).run()


class _Check:
    """One gradient node. `_reached`: all values the loss depends on; `_smooth`: those with a path of gradients."""

    def __init__(self, node: Node, versions: Versions) -> None:
        self._node = node
        self._versions = versions
        self._loss = node.operands[0]
        self._nodes = ancestors([self._loss])
        self._reached = _reached(self._nodes) | {self._loss}
        self._smooth = _smooth(self._nodes, self._loss)

    def run(self) -> Iterator[Diagnostic]:
        for target in self._node.operands[1:]:
            message = self._target(target)
            if message is not None:
                yield message

    def _target(self, target: Value) -> Diagnostic | None:
        same = self._reads(target, same=True)
        other = self._reads(target, same=False)
        if any(v in self._reached for v in other):
            return self._ambiguous(target)
        if any(v in self._smooth for v in same):
            return None
        on_path = next((v for v in same if v in self._reached), None)
        return self._independent(target) if on_path is None else self._cut(target, on_path)

    def _reads(self, target: Value, same: bool) -> list[Value]:
        """Reads of the target's variable: those of the same version (and the target itself), or the others."""
        read = target.node
        if read is None or not isinstance(read.attributes, ResourceAttributes):
            return [target] if same else []
        found = [target] if same else []
        version = self._versions[read.name]
        for value in self._reached:
            node = value.node
            if node is not None and node.attributes == read.attributes and not value.is_token:
                is_same = self._versions.get(node.name) == version
                found += [value] if is_same is same else []
        return found

    def _independent(self, target: Value) -> Diagnostic:
        loss, name = _name(self._loss), _name(target)
        sources = _sources(self._nodes, self._loss)
        notes = [f"`{loss}` depends on {_enumerated(sources)}"] if sources else []
        return error(
            "E0501",
            f"`{loss}` does not depend on `{name}`",
            self._node.span,
            "would be zero everywhere",
            notes=notes,
            helps=[f"if that is intended, write `zeros_like({name})`"],
        )

    def _ambiguous(self, target: Value) -> Diagnostic:
        loss, name = _name(self._loss), _name(target)
        return error(
            "E0504",
            f"`{name}` is written between the places where `{loss}` and this gradient read it",
            self._node.span,
            "which of its values is meant?",
            helps=[f"take the gradient before `{name}` is written", f"or name the value: `let before = {name}`"],
        )

    def _cut(self, target: Value, start: Value) -> Diagnostic:
        loss, name = _name(self._loss), _name(target)
        path = _path(start, self._nodes, self._loss)
        blocker = next((node for node in path if not _passes(node)), None)
        why = registry.record(blocker.op).no_gradient if blocker is not None else ""
        secondary = [(blocker.span, f"the slope is lost here: {why}")] if blocker is not None else []
        words = " -> ".join([name, *map(_word, path), loss])
        return error(
            "E0502",
            f"`{loss}` cannot be differentiated with respect to `{name}`",
            self._node.span,
            secondary=secondary,
            notes=[f"path: {words}"],
        )


def _reached(nodes: Sequence[Node]) -> set[Value]:
    """Every value that some node uses or makes, inside regions too."""
    found: set[Value] = set()
    for node in nodes:
        found.update(node.operands)
        for region in node.regions:
            found |= walk.used_values(region)
    return found


def _smooth(nodes: Sequence[Node], loss: Value) -> set[Value]:
    """Values from which gradients can flow to the loss."""
    found = {loss}
    for node in reversed(nodes):
        _spread(node, found)
    return found


def _spread(node: Node, found: set[Value]) -> None:
    pending: list[Node] = [node]
    while pending:
        current = pending.pop()
        if not any(v in found for v in current.results):
            continue
        if current.op == "if":
            for region in current.regions:
                found.update(v for v, r in zip(region.outputs, current.results, strict=True) if r in found)
                pending += region.nodes
        elif current.regions:
            inside = {v for region in current.regions for v in walk.used_values(region)}
            found.update(v for v in (*walk.inputs(current), *inside) if carries_gradient(v))
        elif _passes(current):
            found.update(v for v in current.operands if carries_gradient(v))


def _passes(node: Node) -> bool:
    """Whether gradients go through a node at all."""
    if node.regions:
        return True
    return registry.record(node.op).gradient is not None and any(map(carries_gradient, node.results))


def _path(start: Value, nodes: Sequence[Node], loss: Value) -> list[Node]:
    """A shortest path of nodes from a value to the loss."""
    users: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in _reached([node]):
            users.setdefault(value, []).append(node)
    came: dict[Node, Node | None] = dict.fromkeys(users.get(start, []))
    waiting = deque(came)
    while waiting:
        node = waiting.popleft()
        if loss in node.results:
            return _back(node, came)
        for result in node.results:
            for user in users.get(result, []):
                if user not in came:
                    came[user] = node
                    waiting.append(user)
    return []


def _back(node: Node, came: dict[Node, Node | None]) -> list[Node]:
    path: list[Node] = []
    current: Node | None = node
    while current is not None:
        path.append(current)
        current = came[current]
    return path[::-1]


def _sources(nodes: Sequence[Node], loss: Value) -> list[str]:
    """The feeds and variables that the loss depends on, in the order of their first use."""
    found: dict[str, None] = {}
    inner = [n for node in nodes for n in (node, *(m for region in node.regions for m in walk.nodes(region)))]
    made = {v for node in inner for v in node.results}
    for node in inner:
        if isinstance(node.attributes, ResourceAttributes):
            found[node.attributes.resource] = None
        found.update((_name(v), None) for v in node.operands if v not in made and not v.is_token)
    if loss.node is None:
        found[_name(loss)] = None
    return list(found)


def _name(value: Value) -> str:
    """How the author knows a value: the variable it was read from, or the last part of its name."""
    node = value.node
    if node is not None and isinstance(node.attributes, ResourceAttributes):
        return node.attributes.resource
    return value.name.rsplit("/", 1)[-1].split(":", 1)[0] or "this"


def _word(node: Node) -> str:
    if isinstance(node.attributes, CastAttributes):
        return f"as {node.attributes.dtype}"
    return registry.record(node.op).operator or node.op


def _enumerated(names: Sequence[str], most: int = 6) -> str:
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
