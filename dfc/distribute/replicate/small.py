"""What is small is combined behind the loop over the blocks, all of it at once, and by one task without any message.

    for i in 0..NB { .. emit part }                                 parts: f32[NB, 128]
    let whole = if NB == 8 { yield (parts[0] + parts[1]) + .. }     one task has all blocks: it adds them by itself
      else { contribute(parts, FIRST); yield combined() }

A request costs what some thousand additions cost, so there is one for all blocks instead of one a block, and none where
nobody else has blocks. Assumes parts of sizes that are known, and that every task has a block. Guarantees the additions
of `reduction_plan`: a binary tree over the numbers of the blocks, cut at the largest power of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.dims import ONE, ZERO, Dim, dim
from dfc.ir.dtypes import F32, F64, I32, I64
from dfc.ir.graph import Block, Value
from dfc.ir.regions import if_node, if_view
from dfc.ir.types import TensorType, TokenType, Type
from dfc.ops.attributes import SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects.communication import NETWORK, CombinedAttributes, ContributeAttributes

NETWORK_TOKEN = TokenType(NETWORK)
MOST_BYTES = 1 << 19
"""Parts of all blocks of a value that is small."""
MOST_TOGETHER = 1 << 22
"""Parts of all small values of a loop: they are kept until its end, where others leave while it goes on."""
MOST_BLOCKS = 64
"""Each of them is an operand of the sum that a task makes by itself."""
ADDED = frozenset({F32, F64, I32, I64})
"""Types that are added here as NumPy adds them: others are rounded elsewhere."""


@dataclass(frozen=True, slots=True)
class Part:
    """A sum over blocks: its key, the stack of its parts, and where it comes from."""

    value: Value
    key: str
    stack: Value
    span: Span


def small(values: Iterable[tuple[Value, str, Type]], blocks: int) -> list[Value]:
    """The values whose parts are small: given with how they are combined, and the type of a part."""
    small_values: list[Value] = []
    total = 0
    for value, how, type_ in values:
        elements = type_.elements.constant if isinstance(type_, TensorType) else None
        if how != "sum" or elements is None or not isinstance(type_, TensorType) or type_.dtype not in ADDED:
            continue
        size = elements * type_.machine.size * blocks
        if 0 < size <= MOST_BYTES and blocks <= MOST_BLOCKS and total + size <= MOST_TOGETHER:
            small_values.append(value)
            total += size
    return small_values


def combined(
    output: Builder, parts: Sequence[Part], count: Dim, first: Dim, job: str, blocks: int, network: Value
) -> tuple[Sequence[Value], Value]:
    """The sums of all blocks of the batch, and the token behind them."""
    condition = output.apply("equal", output.size(count), output.constant(blocks, I64))
    alone = _alone(output, parts, blocks)
    together = _together(output, parts, first, job, blocks)
    branch = output.append(if_node(condition, alone, together, (network,), origin=output))
    results = if_view(branch).results
    return results.values, results.tokens[0]


def _alone(output: Builder, parts: Sequence[Part], blocks: int) -> Block:
    token = Value(NETWORK_TOKEN, NETWORK)
    block = Block((token,))
    b = Builder(block, name=output.name, span=output.span)
    sums: list[Value] = []
    for part in parts:
        b.name, b.span = f"{part.value.name}/whole", part.span
        sums.append(_tree(b, part.stack, 0, blocks))
    block.outputs = (*sums, token)
    return block


def _tree(b: Builder, stack: Value, start: int, end: int) -> Value:
    """The sum of the parts of these blocks."""
    if end - start == 1:
        rest = stack.tensor.shape[1:]
        slice_attributes = SliceAttributes((dim(start), *(ZERO for _ in rest)), (ONE, *rest), (1,) * (1 + len(rest)))
        return b.reshape(b.apply("slice", stack, attributes=slice_attributes), rest)
    middle = start + (1 << ((end - start - 1).bit_length() - 1))
    return b.apply("add", _tree(b, stack, start, middle), _tree(b, stack, middle, end))


def _together(output: Builder, parts: Sequence[Part], first: Dim, job: str, blocks: int) -> Block:
    token = Value(NETWORK_TOKEN, NETWORK)
    block = Block((token,))
    b = Builder(block, name=output.name, span=output.span)
    number = b.size(first)
    for part in parts:
        b.name, b.span = f"{part.value.name}/part", part.span
        contribution = ContributeAttributes(part.key, job, blocks, "sum", stacked=True)
        token = b.add("contribute", (part.stack, number, token), (NETWORK_TOKEN,), contribution).result
    sums: list[Value] = []
    for part in parts:
        b.name, b.span = f"{part.value.name}/whole", part.span
        type_ = _type_of(part)
        node = b.add("combined", (token,), (type_, NETWORK_TOKEN), _taken(part, job, blocks, type_))
        sums.append(node.result)
        token = node.results[1]
    block.outputs = (*sums, token)
    return block


def _taken(part: Part, job: str, blocks: int, type_: TensorType) -> CombinedAttributes:
    return CombinedAttributes(part.key, job, blocks, "sum", type_, 1.0)


def _type_of(part: Part) -> TensorType:
    return part.stack.tensor.with_shape(part.stack.tensor.shape[1:])
