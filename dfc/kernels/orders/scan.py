"""Scans: ordered kernels that store all prefixes of a fold along one axis, and in which order those combine values.

Part of what a kernel means, on every machine, as `reduction` is for folds that keep their total alone.

    prefix(j)  = carry of the segment of j, combined with what is inside of the segment up to j
    segment    = `SEGMENT` neighbours of a row. Inside of it, with distances 1, 2, 4, .. below `SEGMENT` in turn, each
                 value is combined with the one that far before it, where there is one, all at once
    carry      = the kernel's start; behind each segment, the last prefix of it

A kernel is done so by *rows*, where neighbours along the scanned axis are neighbours in memory: the values of a segment
are lanes of vectors, or of a warp. They are in the register type, and are rounded where they are stored. Otherwise, by
*columns*, it is what its form says: one step after the other, each reading what the last one stored.

Of two values the earlier one stands where the kernel has the prefix, the later one where it has the element. Assumes a
well-formed kernel. Guarantees an order that is a function of the kernel alone. After Hillis and Steele, "Data Parallel
Algorithms", 1986 (the steps inside of a segment).
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, dim
from dfc.kernels.access import Access, StageAccess, kernel_access
from dfc.kernels.axes import Merging, misfits
from dfc.kernels.body import Affine, Apply, Instruction, Number
from dfc.kernels.form import LoopKernel

SEGMENT = 32
DISTANCES = (1, 2, 4, 8, 16)
_FUNCTIONS = frozenset(("add", "mul", "minimum", "maximum"))


@dataclass(frozen=True, slots=True)
class Scan:
    """`value` = function(`before`, `element`), stored, or with these two the other way round; `before` loads what was
    stored one step earlier along `axis`, and is the number `start` at the first step. All but `axis` are numbers of
    instructions."""

    function: str
    value: int
    before: int
    element: int
    axis: int
    start: int
    is_element_first: bool


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """A kernel that is a scan: its `outer` axes, merged (`extents` are theirs), and whether its rows have segments."""

    kernel: LoopKernel
    scan: Scan
    access: StageAccess
    extents: tuple[Dim, ...]
    outer: tuple[int, ...]
    by_rows: bool

    @property
    def length(self) -> Dim:
        """Of the scanned axis."""
        return self.kernel.axes[self.scan.axis].extent


def scan_order(kernel: LoopKernel) -> ScanOrder | None:
    """The order of a kernel, if it is a scan."""
    scan = find_scan(kernel)
    if scan is None:
        return None
    access = kernel_access(kernel)
    body, extents = kernel.stages[0].body, [axis.extent for axis in kernel.axes]
    outer = Merging(kernel, access).merge(range(kernel.outer), access, extents)

    def misfit(axis: int) -> int:
        return misfits(body, access[0], axis, either_way=True)

    by_rows = not outer or misfit(scan.axis) <= min(misfit(axis) for axis in outer)
    return ScanOrder(kernel, scan, access[0], tuple(extents), outer, by_rows)


def find_scan(kernel: LoopKernel) -> Scan | None:
    """What a kernel scans, if it is one fold with all its prefixes along one axis."""
    if not kernel.ordered or len(kernel.stages) != 1:
        return None
    stage, access = kernel.stages[0], kernel_access(kernel)[0]
    if len(stage.axes) != 1 or len(stage.stores) != 1 or stage.reductions or stage.stores[0].combine:
        return None
    value = stage.stores[0].value
    operation = stage.body[value].operation
    if not isinstance(operation, Apply) or operation.function not in _FUNCTIONS or stage.body[value].dtype.is_bool:
        return None
    return _scan(stage.body, access, stage.axes[0], value)


def _scan(body: Sequence[Instruction], access: StageAccess, axis: int, value: int) -> Scan | None:
    operation, stored = body[value].operation, access.stores[0]
    assert isinstance(operation, Apply)
    own = [n for n, load in access.loads.items() if load.operand == stored.operand]
    if len(own) != 1 or stored.lookups:
        return None
    before = own[0]
    users = [n for n, one in enumerate(body) if before in one.arguments]
    others = [n for n, load in access.loads.items() if before in load.arguments()]
    arguments = body[value].arguments
    if users != [value] or others or arguments.count(before) != 1 or not _is_step(access.loads[before], stored, axis):
        return None
    start = access.loads[before].otherwise
    if not isinstance(body[start].operation, Number):
        return None
    position = arguments.index(before)
    return Scan(operation.function, value, before, arguments[1 - position], axis, start, position == 1)


def _is_step(load: Access, stored: Access, axis: int) -> bool:
    """Whether a load reads what a store wrote one step earlier, where there is such a step."""
    step = stored.coefficients[axis]
    one_less = Affine(((axis, 1),), dim(-1))
    inside = all((bound.affine, bound.interior) == (one_less, 1) for bound in load.bounds)
    same = load.coefficients == stored.coefficients and load.offset == stored.offset - step
    return same and inside and len(load.bounds) == 1 and not load.lookups
