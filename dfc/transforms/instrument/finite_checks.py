"""finite_checks: after every value that arithmetic makes, a check that all of it is finite. Runs only when asked for.

    let y: f32[3] = log(x)            let y: f32[3] = log(x)
    return y                   ->     assert all(is_finite(y))
                                      return y

Checked are results of float arithmetic, inside loops and branches too. Not checked: what only moves values that were
checked where they were made (slices, reshapes, reads), constants, and a value that nothing but a `select` takes: the
choice is checked in its place. The checks are fused like all else, and results keep their bits: the tree of a sum is a
matter of its length, not of what is fused with it. Stands before `expand`, so that what an op does inside (in
softmax, say) is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import NameSet
from dfc.ir.rewrite import map_blocks
from dfc.ir.types import TensorType, TokenType
from dfc.ops import registry
from dfc.ops.attributes import ASSERT_RESOURCE, FINITE, AssertAttributes, ReduceAttributes
from dfc.ops.builder import Builder
from dfc.ops.record import Effect
from dfc.ops.rules.lookup import rules_of

NAME = "finite_checks"


def insert_checks(graph: Graph) -> Graph:
    return map_blocks(graph, insert_block_checks)


def insert_block_checks(block: Block) -> Block:
    chosen = watched(block)
    if not chosen:
        return block
    names = NameSet(node.name for node in walk.nodes(block))
    return _CheckInserter(chosen, names).block(block)


def watched(block: Block) -> set[Node]:
    """The nodes of a block, and of the regions in it, whose results are checked."""
    users: dict[Value, list[Node | None]] = {}
    for inner in walk.blocks(block):
        for node in inner.nodes:
            for value in node.operands:
                users.setdefault(value, []).append(node)
        for value in inner.outputs:
            users.setdefault(value, []).append(None)
    return {node for node in walk.nodes(block) if _makes_values(node) and not _only_chosen(node, users)}


def _makes_values(node: Node) -> bool:
    if node.regions or rules_of(node).keeps_finite or registry.record(node.op).effect is not Effect.PURE:
        return False
    return any(_is_float(value) for value in node.results)


def _only_chosen(node: Node, users: Mapping[Value, Sequence[Node | None]]) -> bool:
    """Whether nothing but choices (`select`) take the results: what it does not choose does no harm."""
    candidates = [user for value in node.results for user in users.get(value, ())]
    return bool(candidates) and all(user is not None and rules_of(user).chooses for user in candidates)


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.tensor.dtype.is_float


class _CheckInserter:
    """Rebuilds blocks with the token of checks threaded through whatever holds one. Recurses into regions only."""

    def __init__(self, chosen: set[Node], names: NameSet) -> None:
        self._chosen = chosen
        self._names = names
        self._known: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        """The block with checks, and with their token among its parameters and outputs."""
        token = next((v for v in block.parameters if _is_check(v)), None)
        parameters = block.parameters
        if token is None:
            token = Value(TokenType(ASSERT_RESOURCE), ASSERT_RESOURCE)
            parameters = _with(parameters, token)
        nodes: list[Node] = []
        for node in block.nodes:
            token = self._node(node, token, nodes)
        outputs = [self._known.get(v, v) for v in block.outputs]
        return Block(parameters, nodes, _with(outputs, token))

    def _node(self, node: Node, token: Value, nodes: list[Node]) -> Value:
        """Appends a node and the checks of its results; the token that follows."""
        rebuilt = self._rebuilt(node, token)
        nodes.append(rebuilt)
        token = next((v for v in rebuilt.results if _is_check(v)), token)
        if node in self._chosen:
            for value in rebuilt.results:
                if _is_float(value):
                    token = self._check(node, value, token, nodes)
        return token

    def _rebuilt(self, node: Node, token: Value) -> Node:
        operands = [self._known.get(v, v) for v in node.operands]
        holds = any(inner in self._chosen or inner.op == "assert" for r in node.regions for inner in walk.nodes(r))
        takes = any(_is_check(v) for v in node.operands)
        if not holds and not takes:
            if all(a is b for a, b in zip(operands, node.operands, strict=True)) and not node.regions:
                return node
            return self._replaced(node, operands, [v.type for v in node.results], self._captured(node))
        regions = [self.block(region) for region in node.regions]
        results = node.results if takes else _with(node.results, Value(TokenType(ASSERT_RESOURCE)))
        return self._replaced(node, _with(operands, token), [v.type for v in results], regions)

    def _captured(self, node: Node) -> Sequence[Block]:
        """Regions without checks, over the new values around them."""
        return [self._plain(region) for region in node.regions]

    def _plain(self, block: Block) -> Block:
        nodes: list[Node] = []
        for node in block.nodes:
            operands = [self._known.get(v, v) for v in node.operands]
            nodes.append(self._replaced(node, operands, [v.type for v in node.results], self._captured(node)))
        return Block(block.parameters, nodes, [self._known.get(v, v) for v in block.outputs])

    def _replaced(
        self, node: Node, operands: Sequence[Value], types: Sequence[object], regions: Sequence[Block]
    ) -> Node:
        kinds = [t for t in types if isinstance(t, TensorType | TokenType)]
        replacement = Node(
            node.op, operands, kinds, attributes=node.attributes, regions=regions, name=node.name, span=node.span
        )
        fresh = iter(v for v in replacement.results if not _is_check(v))
        for old in node.results:
            if not _is_check(old):
                self._known[old] = next(fresh)
        return replacement

    def _check(self, node: Node, value: Value, token: Value, nodes: list[Node]) -> Value:
        builder = Builder.appending(nodes, name="", span=node.span)
        builder.name = self._names.fresh(f"{node.name}/is_finite")
        finite = builder.apply("is_finite", value)
        if finite.tensor.rank:
            builder.name = self._names.fresh(f"{node.name}/all_finite")
            axes = tuple(range(finite.tensor.rank))
            finite = builder.apply("all", finite, attributes=ReduceAttributes(axes, False))
        builder.name = self._names.fresh(f"{node.name}/is_checked")
        attributes = AssertAttributes(f"`{value.name}` is not finite", FINITE)
        return builder.add("assert", (finite, token), (TokenType(ASSERT_RESOURCE),), attributes).result


def _is_check(value: Value) -> bool:
    return isinstance(value.type, TokenType) and value.type.resource == ASSERT_RESOURCE


def _with(values: Sequence[Value], token: Value) -> tuple[Value, ...]:
    """Values and tokens, sorted as they must be, with this token for checks and no other."""
    plain = [v for v in values if not v.is_token]
    tokens = [v for v in values if v.is_token and not _is_check(v)]
    return (*plain, *sorted([*tokens, token], key=lambda v: str(v.type)))
