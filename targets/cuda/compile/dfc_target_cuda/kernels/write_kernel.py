"""Kernels as device code: from a kernel and a schedule to the text of one function.

The only way into the writers. Guarantees that equal kernels under equal schedules give equal texts.
"""

from __future__ import annotations

from dfc.ir.dims import ZERO
from dfc.kernels.canonical import symbol_count
from dfc.kernels.contractions import as_loops, kernel_faults
from dfc.kernels.form import ContractKernel, Kernel
from dfc.kernels.printer import slot
from dfc.kernels.scan_order import scan_order
from dfc_target_cuda.kernels.kernel_text import KernelText, Schedule
from dfc_target_cuda.kernels.tiling import tiled
from dfc_target_cuda.kernels.write_contract import ContractWriter
from dfc_target_cuda.kernels.write_map import MapWriter, is_map
from dfc_target_cuda.kernels.write_ordered import ScatterWriter, is_scatter
from dfc_target_cuda.kernels.write_scan import ScanWriter
from dfc_target_cuda.kernels.write_staged import ReduceWriter
from dfc_target_cuda.kernels.write_text import Lines, Sizes
from dfc_target_cuda.kernels.write_transpose import TransposeWriter, crossing_axis


def write_kernel(kernel: Kernel, name: str, schedule: Schedule, *, guarded: bool) -> KernelText:
    """The text of a kernel; `guarded`: it does nothing once a fault was reported."""
    lines, sizes = Lines(), Sizes()
    writer = _writer(kernel, schedule, lines, sizes, guarded=guarded)
    writer.write()
    workspace = writer.workspace()
    count = symbol_count(kernel)
    head = signature(name, len(kernel.operands), count, has_workspace=workspace != ZERO)
    first = [*(writer.bounds_check() if guarded else []), *writer.first_lines(), *sizes.lines]
    return KernelText(
        name,
        lines.text(head, first),
        tuple(operand.dtype for operand in kernel.operands),
        count,
        writer.geometry(),
        workspace,
        guarded,
        kernel_faults(kernel),
    )


Writer = MapWriter | TransposeWriter | ReduceWriter | ScatterWriter | ScanWriter | ContractWriter


def _writer(kernel: Kernel, schedule: Schedule, lines: Lines, sizes: Sizes, *, guarded: bool) -> Writer:
    """What writes a kernel of this form."""
    if isinstance(kernel, ContractKernel):
        product = tiled(kernel, schedule)
        if product is not None:
            return ContractWriter(product, schedule, lines, sizes, guarded=guarded)
        kernel = as_loops(kernel)
    if is_map(kernel):
        writer = MapWriter(kernel, schedule, lines, sizes)
        axis = crossing_axis(writer, schedule)
        return writer if axis is None else TransposeWriter(writer, axis, schedule, lines, sizes)
    if is_scatter(kernel):
        return ScatterWriter(kernel, schedule, lines, sizes)
    scan = scan_order(kernel)
    if scan is not None:
        return ScanWriter(scan, schedule, lines, sizes)
    return ReduceWriter(kernel, schedule, lines, sizes, guarded=guarded)


def signature(name: str, operands: int, sizes: int, *, has_workspace: bool) -> str:
    """The head of the function: operands, sizes, workspace, error."""
    parameters = [slot(number) for number in range(operands)] + [f"d{number}" for number in range(sizes)]
    return f"def {name}({', '.join([*parameters, *(['workspace'] if has_workspace else []), 'error'])}):"
