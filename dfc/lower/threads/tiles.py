"""How a product is cut into tiles of the result, blocks of its depth, and loads of its factors.

Pure analysis. Guarantees that all of it is a function of the kernel and the schedule alone, so that the order of every
sum is: over k in ascending order within a part, parts (where few results have long sums) in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, is_multiple, minimum, product
from dfc.ir.dtypes import DType
from dfc.kernels.access import Access, StageAccess, stage_access
from dfc.kernels.contractions import matrix_factors
from dfc.kernels.form import ContractKernel
from dfc.kernels.operand_maps import OperandMap
from dfc.lower.threads.schedule import ZEROED, Geometry, Schedule

_SHARED_BYTES = 48 * 1024
_WORD = 16
"""Bytes of the widest access."""
_MOST_BLOCKS = 1 << 20
_MOST_PARTS = 32
_PART_STEPS = 8
"""Least number of blocks of depth that makes a part worth combining."""
WARP = 32
_WAVE = 132
"""Tiles that keep a large device busy."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A block of threads makes `m` x `n` results in blocks of depth `k`, each thread `thread_m` x `thread_n`."""

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int

    @property
    def across(self) -> int:
        """Threads along n."""
        return self.n // self.thread_n

    @property
    def threads(self) -> int:
        return self.m // self.thread_m * self.across


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a product, read through `map`. `row` is its axis m or n, with `tile` rows a block; `along_k`:
    neighbours in memory are neighbours in k; a thread loads `vector` of them at once, of type `dtype`."""

    map: OperandMap
    dtype: DType
    row: int
    tile: int
    along_k: bool
    vector: int
    pad: int

    @property
    def access(self) -> Access:
        return self.map.access

    @property
    def stride(self) -> int:
        """Elements between neighbours in k in shared memory."""
        return self.tile + self.pad


@dataclass(frozen=True, slots=True)
class Tiled:
    """A contraction as tiles. `splits`: parts of the depth, a formula that is at least 1. `tensor`: the type of the
    factors where warps multiply small matrices (tensor cores), else nothing."""

    kernel: ContractKernel
    tiling: Tiling
    a: Factor
    b: Factor
    epilogue: StageAccess
    splits: Dim
    tensor: str = ""

    @property
    def extents(self) -> list[Dim]:
        return [axis.extent for axis in self.kernel.axes]

    @property
    def blocks_m(self) -> Dim:
        return ceil_divide(self.extents[self.kernel.m], dim(self.tiling.m))

    @property
    def blocks_n(self) -> Dim:
        return ceil_divide(self.extents[self.kernel.n], dim(self.tiling.n))

    @property
    def tiles(self) -> Dim:
        return product(self.extents[: self.kernel.m]) * self.blocks_m * self.blocks_n

    @property
    def is_split(self) -> bool:
        """Whether blocks of threads take parts of a tile's depth."""
        return self.splits != ONE

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.tiles * self.splits, 1, self.tiling.threads, _MOST_BLOCKS)

    @property
    def workspace(self) -> Dim:
        """Bytes: tickets of the tiles, and their partial sums."""
        if not self.is_split:
            return ZERO
        partial = self.tiling.m * self.tiling.n * self.kernel.accumulator.size
        return (dim(ZEROED) + self.tiles * self.splits * partial) * minimum(self.splits - 1, ONE)


def tiled(kernel: ContractKernel, schedule: Schedule) -> Tiled | None:
    """The contraction as tiles; None where a reduction over rows is the better way, or the factors are no matrices."""
    rank = len(kernel.axes)
    m, n = rank - 3, rank - 2
    types = [kernel.operands[one.operand].dtype for one in (kernel.a, kernel.b)]
    if any(one.is_bool or one.is_complex for one in (kernel.accumulator, *types)):
        return None
    factors = matrix_factors(kernel)
    if factors is None:
        return None
    a, b = factors
    extents = [axis.extent for axis in kernel.axes]
    tensor = _tensor_type(types, kernel.accumulator, schedule)
    if tensor:
        tiling = tensor_tiling(extents, tensor)
    else:
        tiling = choose_tiling(extents, schedule, kernel.accumulator, min(one.size for one in types))
    from_a = _factor(a, kernel, m, tiling.m, tiling, extents, schedule)
    from_b = _factor(b, kernel, n, tiling.n, tiling, extents, schedule)
    epilogue = stage_access(kernel.operands, rank, kernel.epilogue, kernel.stores)
    return Tiled(kernel, tiling, from_a, from_b, epilogue, _splits(extents, tiling, schedule), tensor)


def choose_tiling(extents: list[Dim], schedule: Schedule, accumulator: DType, narrowest: int) -> Tiling:
    """Tiles as the schedule has them; twice as wide each way where there are enough of those for a whole device,
    smaller ones where the result is known to be, deeper ones for factors of two bytes."""
    rows, columns = (_tile(extents[-3], schedule.tile_m), _tile(extents[-2], schedule.tile_n))
    thread_m, thread_n = min(schedule.thread_m, rows), min(schedule.thread_n, columns)
    depth = schedule.tile_k * (2 if narrowest <= 2 and accumulator.size > narrowest else 1)
    usual = (rows, columns) == (schedule.tile_m, schedule.tile_n)
    if usual and accumulator.size == 4 and _fills(extents, 2 * rows, 2 * columns):
        rows, columns, thread_m, thread_n = 2 * rows, 2 * columns, 2 * thread_m, 2 * thread_n
    elif rows < schedule.tile_m:
        columns, thread_m = _tile(extents[-2], 2 * schedule.tile_n), max(1, thread_m // 2)
    elif columns < schedule.tile_n:
        rows, thread_n = _tile(extents[-3], 2 * schedule.tile_m), max(1, thread_n // 2)
    while 2 * depth * (rows + columns + 8) * accumulator.size > _SHARED_BYTES:
        depth //= 2
    return Tiling(rows, columns, depth, thread_m, thread_n)


def _tensor_type(types: Sequence[DType], accumulator: DType, schedule: Schedule) -> str:
    """What warps multiply in small matrices: halves summed in f32; f32 with 11 bits if the schedule says so."""
    if not schedule.tensor_cores or schedule.warp != WARP or accumulator.name != "f32" or types[0] != types[1]:
        return ""
    if types[0].name == "f32":
        return "tf32" if schedule.tf32 else ""
    return types[0].name if types[0].name in ("f16", "bf16") else ""


def tensor_tiling(extents: list[Dim], tensor: str) -> Tiling:
    """Tiles of whole warps: each has 64 x 32 results, or less of small tiles."""
    side = 128 if _fills(extents, 128, 128) else 64
    rows, columns = (max(16, _tile(extent, side)) for extent in extents[-3:-1])
    depth = 16 if tensor == "tf32" else 32
    return Tiling(rows, columns, depth, min(rows, 64 if rows == 128 else 32) // 8, min(columns, 32) // 4)


def _fills(extents: list[Dim], rows: int, columns: int) -> bool:
    """Whether there surely are enough tiles of that size for a whole device."""
    tiles = product([*extents[:-3], ceil_divide(extents[-3], dim(rows)), ceil_divide(extents[-2], dim(columns))])
    return tiles.constant is not None and tiles.constant >= _WAVE


def _tile(extent: Dim, usual: int) -> int:
    """The smallest power of two that holds the extent, at most the usual tile."""
    known = extent.constant
    if known is None:
        return usual
    tile = usual
    while tile > 1 and known <= tile // 2:
        tile //= 2
    return tile


def _splits(extents: list[Dim], tiling: Tiling, schedule: Schedule) -> Dim:
    """Parts of the depth where few tiles would leave the device idle."""
    tiles = product([*extents[:-3], ceil_divide(extents[-3], dim(tiling.m)), ceil_divide(extents[-2], dim(tiling.n))])
    target_parts = max(2, schedule.blocks // 8)
    known = tiles.constant
    if not known or 2 * known > target_parts or 4 * known > ZEROED:
        return ONE
    most = min(_MOST_PARTS, target_parts // known)
    parts = minimum(extents[-1] // (_PART_STEPS * tiling.k), dim(most))
    return dim(max(parts.constant, 1)) if parts.constant is not None else _at_least_one(parts)


def _at_least_one(parts: Dim) -> Dim:
    return parts + 1 - minimum(parts, ONE)


def _factor(
    one: OperandMap, kernel: ContractKernel, row: int, tile: int, tiling: Tiling, extents: list[Dim], schedule: Schedule
) -> Factor:
    k, access = len(extents) - 1, one.access
    dtype, accumulator = kernel.operands[access.operand].dtype, kernel.accumulator
    by_depth, by_row = one.parts(k)[-1], one.parts(row)[-1]
    unit = {axis for axis, coefficient in enumerate(access.coefficients) if coefficient == ONE}
    along_k = by_depth in unit or (by_row not in unit and one.depends_on(k))
    contiguous, length = (by_depth, tiling.k) if along_k else (by_row, tile)
    vector = min(schedule.vector_bytes, _WORD) // dtype.size if contiguous in unit else 1
    vector = 1 if contiguous in access.named_axes() else min(vector, length)
    starts = [c for axis, c in enumerate(access.coefficients) if axis != contiguous and c != ZERO]
    starts += [access.offset, [*extents, *(each.extent for each in one.sub_axes)][contiguous]]
    starts += [lookup.stride for lookup in access.lookups]
    while vector > 1 and (
        tile * tiling.k % (vector * tiling.threads) or not all(is_multiple(start, vector) for start in starts)
    ):
        vector //= 2
    lanes = _WORD // accumulator.size
    return Factor(one, dtype, row, tile, along_k, vector, lanes if along_k and tile >= lanes else 0)
