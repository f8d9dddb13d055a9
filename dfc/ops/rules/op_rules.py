"""The rules of one op: a field of its record for each question that passes ask about ops.

A field that is None is the safe default, which never makes a program wrong, only slower or a message less exact. A
record that means the default says so, by name; a test asks this of every op of the set that passes meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfc.ops.rules.degrees import DegreeRule
from dfc.ops.rules.use import ShardingRule


@dataclass(frozen=True, slots=True)
class OpRules:
    """`sharding`: what becomes of values that are cut into pieces, or are there as parts of a sum. Default: ops that
    work element by element give pieces of pieces, all others need everything whole (`needs_whole`).
    `degree`: how results grow with the batch, so that it can be told whether gradients are means or sums. Default:
    nothing is known of what is made of values that grow (`unknown`), but for tests element by element (`pointwise`)."""

    sharding: ShardingRule | None = None
    degree: DegreeRule | None = None
