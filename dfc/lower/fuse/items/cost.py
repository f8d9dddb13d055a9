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
from functools import lru_cache

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.ir.graph import Value
from dfc.lower.fuse.items.items import Item, ReduceItem, extents_of
from dfc.ops.lowering.index_maps import Point

ASSUMED = 64
"""What a size is that is known at the call only: rows of a batch, say."""
CACHE = 1 << 18
"""Bytes of a value that is still in a cache of the core when the next kernel reads it."""
LANE = 4
"""Bytes of an element of which a vector has as many as operations are counted for; eight bytes take two operations."""
SHARED = 2
"""Operands of repeated work count one of so many: the items read most of them anyway."""
HIDDEN = 3
"""Weight of what may be repeated at any number of points: less than the memory accesses there take."""

INDICES = 8
"""The same of what is made from indices alone: a mask, which kernels may make use of if they can see it."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Picoseconds: of a byte from or to memory and the cache, of an operation of weight one, of a kernel of its
    own."""

    memory: int = 100
    cache: int = 25
    operation: int = 80
    launch: int = 2_000_000


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
    in_stages: bool = False
    """Whether it is about later stages of the kernel that computes the value."""
    in_rows: bool = False
    """Whether it is about kernels that go along the same rows: apart, with the value in memory, or as one."""

    @property
    def grows(self) -> bool:
        """Whether it is read at more points than it has elements."""
        return self.kept.launches > 0

    @property
    def keeps(self) -> bool:
        return compare(self.kept, self.repeated)

    def __str__(self) -> str:
        operations = _with_unit(self.repeated.operations - self.kept.operations, "").strip()
        repeats = _with_unit(self.repeated.operations, "").strip()
        difference = self.kept.bytes - self.repeated.bytes
        less, more = (
            f"saves {_with_unit(abs(difference), 'B')} of traffic",
            f"moves {_with_unit(abs(difference), 'B')} more",
        )
        once, again = ("is read back", "is computed again") if self.in_stages else ("is computed once", "is repeated")
        sizes = f", with {', '.join(f'{name} = {ASSUMED}' for name in self.assumed)}" if self.assumed else ""
        if self.in_rows:
            where = "lies in memory" if self.keeps else "stays in cache, some rows at a time"
            return f"{self.name} {where}: {less if difference >= 0 else more}, repeats {repeats} operations{sizes}"
        if self.keeps:
            return f"{self.name} {once}: {more if difference >= 0 else less}, saves {operations} operations{sizes}"
        return f"{self.name} {again}: {less if difference >= 0 else more}, repeats {operations} operations{sizes}"


def compare(kept: Work, repeated: Work, rates: Rates = RATES) -> bool:
    """Whether a value had better be kept in memory than be repeated."""
    return kept.time(rates) < repeated.time(rates)


def decision(value: Value, weight: int, loaded: int, users: Mapping[Item, Sequence[Point]]) -> Decision:
    """What either way takes for a value of `weight` operations and `loaded` bytes an element, which is read at these
    points of the items that use it."""
    elements = assumed(product(value.tensor.shape))
    size = value.tensor.machine.size
    weight *= max(size // LANE, 1)
    reads = [evaluations(item, points) for item, points in users.items()]
    grows = any(count > elements for count in reads)
    once = Work(elements * weight) + moved(elements * loaded // SHARED, elements * loaded)
    stored = moved(elements * size, elements * size)
    loads = [moved(count * size, 0 if count > elements else elements * size) for count in reads]
    kept = sum(loads, once + stored + Work(launches=int(grows)))
    again = [Work(count * weight) + moved(count * loaded // SHARED, elements * loaded) for count in reads]
    symbols = sorted({str(symbol) for item in users for extent in extents_of(item) for symbol in extent.symbols()})
    return Decision(value.name, kept, sum(again, Work()), tuple(symbols))


def stage_decision(value: Value, weight: int, stages: int) -> Decision:
    """What either way takes for a value that so many later stages of its kernel read at the same outer point: kept, it
    is still in a cache then, but goes to memory in the end. Narrow elements are widened on their way, which takes about
    as long as to move them wide."""
    elements = assumed(product(value.tensor.shape))
    size = max(value.tensor.machine.size, LANE)
    kept = Work(memory=elements * size, cached=elements * size * stages)
    symbols = sorted({str(symbol) for extent in value.tensor.shape for symbol in extent.symbols()})
    return Decision(value.name, kept, Work(elements * weight * (size // LANE) * stages), tuple(symbols), True)


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


@lru_cache(maxsize=1 << 12)
def assumed(size: Dim) -> int:
    """A size, those of its symbols that are known at the call only being `ASSUMED`."""
    number = size.substitute(dict.fromkeys(size.symbols(), ASSUMED)).constant
    return ASSUMED if number is None else max(number, 0)


def loaded_bytes(operand: Value, result: Value) -> int:
    """The bytes of an operand that are read for each element of a result: what is broadcast stays in the first
    cache."""
    return operand.tensor.machine.size if operand.tensor.shape == result.tensor.shape else 0


def moved(size: int, footprint: int) -> Work:
    """So many bytes of something that is so large."""
    return Work(memory=size) if footprint > CACHE else Work(cached=size)


def _with_unit(number: int, unit: str) -> str:
    for power, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= power:
            return f"{number / power:.1f} {prefix}{unit}"
    return f"{number} {unit}"
