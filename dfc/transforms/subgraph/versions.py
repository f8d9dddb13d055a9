"""Which reads of a variable see the same value: reads of one version, with no write between them.

A version is a number that stands for "the value of this resource since this effect". Reads keep it, writes make a new
one. Inside an `if` the version at its start goes on; inside a loop whose body writes, each iteration has one of its
own.
"""

from __future__ import annotations

from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import flows, view
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect

Versions = dict[str, int]


def read_versions(block: Block) -> Versions:
    """The version that each read sees, by the name of the read."""
    finder = _Finder()
    finder.run(block)
    return finder.versions


class _Finder:
    def __init__(self) -> None:
        self.versions: Versions = {}
        self._of: dict[Value, int] = {}
        self._count = 0

    def run(self, block: Block) -> None:
        """Tokens get their versions in program order; a region node's after its regions."""
        self._fresh(block.parameters)
        pending = [(node, False) for node in reversed(block.nodes)]
        while pending:
            node, done = pending.pop()
            if done:
                self._after_regions(node)
            elif node.regions:
                pending.append((node, True))
                for region in reversed(node.regions):
                    self._enter(node, region)
                    pending.extend((inner, False) for inner in reversed(region.nodes))
            else:
                self._plain(node)

    def _fresh(self, values: tuple[Value, ...]) -> None:
        for value in values:
            if value.is_token:
                self._count += 1
                self._of[value] = self._count

    def _plain(self, node: Node) -> None:
        if effect(node) is not Effect.READ:
            self._fresh(node.results)
            return
        (token,) = (v for v in node.operands if v.is_token)
        self.versions[node.name] = self._of[token]
        self._of.update((v, self._of[token]) for v in node.results if v.is_token)

    def _enter(self, node: Node, region: Block) -> None:
        if node.op != "if" and _writes(node):
            self._fresh(region.parameters)
            return
        received = [flow for flow in flows(view(node)) if flow.result.is_token and flow.initial is not None]
        inside = [flow.parameters[node.regions.index(region)] for flow in received]
        before = [self._of[flow.initial] for flow in received if flow.initial is not None]
        self._of.update(zip(inside, before, strict=True))

    def _after_regions(self, node: Node) -> None:
        """A resource that all regions hand on in its old version keeps it."""
        self._fresh(node.results)
        for flow in flows(view(node)):
            if not flow.result.is_token or flow.initial is None:
                continue
            handed = (*flow.outputs, *((flow.tested,) if flow.tested is not None else ()))
            if {self._of.get(value) for value in handed} == {self._of[flow.initial]}:
                self._of[flow.result] = self._of[flow.initial]


def _writes(node: Node) -> bool:
    return any(effect(inner) in (Effect.WRITE, Effect.HOST) for region in node.regions for inner in walk.nodes(region))
