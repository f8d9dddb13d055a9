"""The rules of one op: a field of its record for each question that passes ask about ops.

A field that is None is the safe default, which never makes a program wrong, only slower or a message less exact. A
record that means the default says so, by name; a test asks this of every op of the set that passes meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfc.ops.rules.costs import CostRule, memory
from dfc.ops.rules.degrees import DegreeRule, unknown
from dfc.ops.rules.movements import Movement
from dfc.ops.rules.row_sparsity import RowRule, RowTotal, dense
from dfc.ops.rules.signs import SignRule, any_sign
from dfc.ops.rules.use import ShardingRule, needs_whole


@dataclass(frozen=True, slots=True)
class OpRules:
    """`sharding`: what becomes of values that are cut into pieces, or are there as parts of a sum. Default: ops that
    work element by element give pieces of pieces, all others need everything whole (`needs_whole`).
    `degree`: how results grow with the batch, so that it can be told whether gradients are means or sums. Default:
    nothing is known of what is made of values that grow (`unknown`), but for tests element by element (`pointwise`).
    `cost`: operations and bytes, by which placement compares computing with moving. Default: `memory`.
    `row_sparsity`: what is known of the result where operands are zero but for some rows; `row_total` makes the result
    itself of these rows. Default: element-wise ops are zero where they compute zero, all others make dense values
    (`dense`). `sign`: what is certain of all elements, by which divisions keep zeros zero. Default: nothing
    (`any_sign`). `movement`: how an op that computes nothing moves the elements of its operand. Default: it computes.
    """

    sharding: ShardingRule | None = None
    degree: DegreeRule | None = None
    cost: CostRule | None = None
    row_sparsity: RowRule | None = None
    row_total: RowTotal | None = None
    sign: SignRule | None = None
    movement: Movement | None = None


DEFAULTS = OpRules(sharding=needs_whole, degree=unknown, cost=memory, row_sparsity=dense, sign=any_sign)
"""Every default, meant: for what has regions or tokens, which passes follow by themselves."""
