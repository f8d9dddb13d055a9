"""Whether a value is computed again by each item that uses it, or once, into memory: bytes moved against work repeated.

    kept:      its work once, a store, a load at each point that reads it, a launch if it needs a kernel of its own
    repeated:  its work, and the loads that this takes, at each of these points

Both are `Work`, data: operations by the weights of op records, bytes by where they come from, launches. `RATES` turns
them into time, `compare` decides, and a `Decision` keeps the figures, which `dfc why` prints. The rates are those of
one core of a server; what counts is how they stand to each other, which is much the same elsewhere. What lies in the
caches between two kernels costs what these take, all else what memory takes.

Sizes that are not known are assumed to be `ASSUMED`. Work is integer arithmetic, so that a program has one plan on
every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.ir.graph import Value
from dfc.lower.fuse.indexing import Point
from dfc.lower.fuse.items.items import Item, ReduceItem, extents_of

ASSUMED = 64
"""What a size is that is known at the call only: rows of a batch, say."""
CACHE = 1 << 18
"""Bytes of a value that is still in a cache of the core when the next kernel reads it."""
SHARED = 2
"""Operands of repeated work count one of so many: the items read most of them anyway."""
HIDDEN = 3
"""Weight of what may be repeated at any number of points: less than the memory accesses there take."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Picoseconds: of a byte from or to memory and the cache, of an operation of weight one, of a launch."""

    memory: int = 100
    cache: int = 25
    operation: int = 80
    launch: int = 1_000_000


RATES = Rates()


@dataclass(frozen=True, slots=True)
class Work:
    """What one way to compute a value takes: operations, bytes from and to memory and the cache, launches."""

    operations: int = 0
    memory: int = 0
    cached: int = 0
    launches: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.operations + other.operations,
            self.memory + other.memory,
            self.cached + other.cached,
            self.launches + other.launches,
        )

    @property
    def bytes(self) -> int:
        return self.memory + self.cached

    def time(self, rates: Rates = RATES) -> int:
        """Picoseconds."""
        moved = self.memory * rates.memory + self.cached * rates.cache
        return self.operations * rates.operation + moved + self.launches * rates.launch


@dataclass(frozen=True, slots=True)
class Decision:
    """A value that is computed once or repeated, and what either takes."""

    name: str
    kept: Work
    repeated: Work
    assumed: tuple[str, ...] = ()

    @property
    def keeps(self) -> bool:
        return compare(self.kept, self.repeated)

    def __str__(self) -> str:
        operations = self.repeated.operations - self.kept.operations
        moved = self.kept.bytes - self.repeated.bytes
        sizes = f", if {', '.join(f'{name} = {ASSUMED}' for name in self.assumed)}" if self.assumed else ""
        if self.keeps:
            return f"{self.name} is computed once: saves {_count(operations)} operations, {_moves(moved)}{sizes}"
        return f"{self.name} is repeated: {_saves(moved)}, repeats {_count(operations)} operations{sizes}"


def compare(kept: Work, repeated: Work, rates: Rates = RATES) -> bool:
    """Whether a value had better be kept in memory than be repeated."""
    return kept.time(rates) < repeated.time(rates)


def decision(value: Value, weight: int, loaded: int, users: Mapping[Item, Sequence[Point]]) -> Decision:
    """What either way takes for a value of `weight` operations and `loaded` bytes an element, which is read at these
    points of the items that use it."""
    elements = assumed(product(value.tensor.shape))
    size = value.tensor.machine.size
    reads = [evaluations(item, points) for item, points in users.items()]
    grows = any(count > elements for count in reads)
    once = Work(elements * weight) + _moved(elements * loaded // SHARED, elements * loaded)
    stored = _moved(elements * size, elements * size)
    loads = [_moved(count * size, 0 if count > elements else elements * size) for count in reads]
    kept = sum(loads, once + stored + Work(launches=int(grows)))
    again = [Work(count * weight) + _moved(count * loaded // SHARED, elements * loaded) for count in reads]
    symbols = sorted({str(symbol) for item in users for extent in extents_of(item) for symbol in extent.symbols()})
    return Decision(value.name, kept, sum(again, Work()), tuple(symbols))


def evaluations(item: Item, points: Sequence[Point]) -> int:
    """How often an item computes what it reads at these points. What is the same along inner loops is computed before
    them; folded axes are inside the others."""
    extents = extents_of(item)
    folded = item.folded if isinstance(item, ReduceItem) else frozenset[int]()
    order = sorted(range(len(extents)), key=lambda axis: (axis in folded, axis))
    total = 0
    for point in points:
        used = {axis for index in point for axis, _ in index.terms}
        depth = max((number + 1 for number, axis in enumerate(order) if axis in used), default=0)
        total += assumed(product(extents[axis] for axis in order[:depth]))
    return total


def assumed(size: Dim) -> int:
    """A size, those of its symbols that are known at the call only being `ASSUMED`."""
    return max(size.evaluate(dict.fromkeys(size.symbols(), ASSUMED)), 0)


def loaded_bytes(operand: Value, result: Value) -> int:
    """The bytes of an operand that are read for each element of a result: what is broadcast stays in the first
    cache."""
    return operand.tensor.machine.size if operand.tensor.shape == result.tensor.shape else 0


def _moved(size: int, footprint: int) -> Work:
    """So many bytes of something that is so large."""
    return Work(memory=size) if footprint > CACHE else Work(cached=size)


def _count(number: int) -> str:
    for unit, name in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if abs(number) >= unit:
            return f"{number / unit:.1f}{name}"
    return str(number)


def _moves(size: int) -> str:
    return f"moves {_count(size)}B more" if size >= 0 else f"moves {_count(-size)}B less"


def _saves(size: int) -> str:
    return f"saves {_count(size)}B of traffic" if size >= 0 else f"moves {_count(-size)}B more"
