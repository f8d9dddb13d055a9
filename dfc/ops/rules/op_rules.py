"""The rules of one op: a field of its record for each question that passes ask about ops.

A field that is None is the safe default, which never makes a program wrong, only slower or a message less exact. A
record that means the default says so, by name; a test asks this of every op of the set that passes meet.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ops.rules.costs import CostRule, memory
from dfc.ops.rules.degrees import DegreeRule, unknown
from dfc.ops.rules.filling import Filling
from dfc.ops.rules.generators import RowsAt
from dfc.ops.rules.row_sparsity import RowRule, RowTotal, dense
from dfc.ops.rules.signs import SignRule, any_sign
from dfc.ops.rules.statistics import StatisticRule, unclear
from dfc.ops.rules.use import ShardingRule, needs_whole


@dataclass(frozen=True, slots=True)
class OpRules:
    """`sharding`: what becomes of values that are cut into pieces, or are there as parts of a sum. Default: ops that
    work element by element give pieces of pieces, and so do views along axes that they read as they are; all others
    need everything whole (`needs_whole`).

    `degree`: how results grow with the batch, so that it can be told whether gradients are means or sums. Default:
    nothing is known of what is made of values that grow (`unknown`), but for tests element by element (`pointwise`).

    `cost`: operations and bytes, by which placement compares computing with moving. Default: `memory`.

    `row_sparsity`: what is known of the result where operands are zero but for some rows; `row_total` makes the result
    itself of these rows. Default: element-wise ops are zero where they compute zero, all others make dense values
    (`dense`).

    `sign`: what is certain of all elements, by which divisions keep zeros zero. Default: nothing (`any_sign`).

    `statistic`: what is made of means, sums and extremes over a batch. Default: `unclear`.

    The others are facts, whose defaults are the safe ones. What follows from the form of the lowering is no rule: how
    an op that computes nothing moves elements, and whether it picks rows by number (`dfc.ops.lowering.views`).

    `rows_at`: makes rows with given numbers of what has no operands. None: rows are taken from the whole.
    `before_combining`: whether it is better done to parts of a sum than to the sum: it costs little and makes nothing
    larger.
    `coefficients`: those of the operands, where the result is the sum of them with these factors (cast).
    `filling`: how an op that puts rows together leaves out those that fill up a short batch. None: it cannot.
    `owners_combine`: how tasks that own pieces along the reduced axis make the result together, where blocks do not.
    `alone`: what a task does by itself, and not as the others, in words of a message.
    `for_people`: whether an effect is there for people to read what a run does.
    `keeps_finite`: whether it makes finite results of finite operands.
    `chooses`: whether what it does not choose of its operands does no harm.
    `weight`: a rough count of machine operations for an element; fusion repeats light work rather than store it.
    `may_fail`: whether the run ends for some operands, so that it does not happen earlier or more often than written.
    `saved_for_backward`: whether it costs so much more than its result takes room that a loop keeps the results of its
    iterations for the backward pass, which computes all else again.
    """

    sharding: ShardingRule | None = None
    degree: DegreeRule | None = None
    cost: CostRule | None = None
    row_sparsity: RowRule | None = None
    row_total: RowTotal | None = None
    sign: SignRule | None = None
    rows_at: RowsAt | None = None
    before_combining: bool = False
    coefficients: tuple[int, ...] = ()
    statistic: StatisticRule | None = None
    filling: Filling | None = None
    owners_combine: str = ""
    alone: str = ""
    for_people: bool = False
    keeps_finite: bool = False
    chooses: bool = False
    weight: int = 1
    may_fail: bool = False
    saved_for_backward: bool = False


DEFAULTS = OpRules(
    sharding=needs_whole, degree=unknown, cost=memory, row_sparsity=dense, sign=any_sign, statistic=unclear
)
"""Every default, by name: a record whose rules start from these means those that it does not replace."""
MOVES_ELEMENTS = OpRules(keeps_finite=True)
"""For what `expand` makes other ops of, and has no elements but those of its operands."""
