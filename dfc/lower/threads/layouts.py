"""The layout of a kernel: which of the forms suits it.

Guarantees equal layouts for equal kernels under equal schedules.
"""

from __future__ import annotations

from typing import TypeAlias

from dfc.kernels.contractions import as_loops
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel
from dfc.kernels.orders.scan import scan_order
from dfc.lower.threads.maps import MapLayout, TransposeLayout, is_map, map_layout
from dfc.lower.threads.scans import ScanLayout
from dfc.lower.threads.scatters import ScatterLayout, is_scatter
from dfc.lower.threads.schedule import Schedule
from dfc.lower.threads.stages import StagedLayout
from dfc.lower.threads.tiles import Tiled, tiled

LaunchLayout: TypeAlias = MapLayout | TransposeLayout | ScatterLayout | ScanLayout | StagedLayout | Tiled
"""Each has the `geometry` of its launches and its `workspace` in bytes, as a formula."""


def layout_of(kernel: Kernel, schedule: Schedule) -> LaunchLayout:
    """The layout of a kernel; a product that is no product of matrices is a reduction over rows. There are none for row
    blocks and routines, which targets with such layouts do not take."""
    if isinstance(kernel, RowBlockKernel | RoutineKernel):
        raise CodeGenerationError(f"{kernel.form} has no layout on threads")
    if isinstance(kernel, ContractKernel):
        product = tiled(kernel, schedule)
        if product is not None:
            return product
        kernel = as_loops(kernel)
    if is_map(kernel):
        return map_layout(kernel, schedule)
    if is_scatter(kernel):
        return ScatterLayout(kernel, schedule)
    scan = scan_order(kernel)
    return ScanLayout(scan, schedule) if scan is not None else StagedLayout(kernel, schedule)
