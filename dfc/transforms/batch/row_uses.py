"""What an entry does with state whose rows lie in several tasks, as data: the analysis of a batch has to know of it."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Node


@dataclass(frozen=True, slots=True)
class RowUses:
    """What happens to state whose rows lie in several tasks: `stacked` nodes pick or assign rows, for all blocks of a
    task at once; `whole` ones look at all rows, once for all blocks of the batch, and so do those that are better done
    `colocated` them. What is `scattered` into zeros for such rows travels as it is, and is added there."""

    stacked: frozenset[Node] = frozenset()
    whole: frozenset[Node] = frozenset()
    colocated: frozenset[Node] = frozenset()
    scattered: frozenset[Node] = frozenset()
