"""Kernels as device code: from a kernel and a schedule to the text of one function.

The only way into the writers. Guarantees that equal kernels under equal schedules give equal texts.
"""

from __future__ import annotations

from dfc.ir.dims import ZERO
from dfc.kernels.canonical import symbol_count
from dfc.kernels.contractions import kernel_faults
from dfc.kernels.form import Kernel
from dfc.kernels.printer import slot
from dfc.lower.threads.layouts import LaunchLayout, layout_of
from dfc.lower.threads.maps import MapLayout, TransposeLayout
from dfc.lower.threads.scans import ScanLayout
from dfc.lower.threads.scatters import ScatterLayout
from dfc.lower.threads.schedule import Schedule
from dfc.lower.threads.stages import StagedLayout
from dfc.lower.threads.text.contract import ContractWriter
from dfc.lower.threads.text.kernel_text import KernelText
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.map import MapWriter
from dfc.lower.threads.text.scan import ScanWriter
from dfc.lower.threads.text.scatter import ScatterWriter
from dfc.lower.threads.text.staged import ReduceWriter
from dfc.lower.threads.text.tiles import FactorLoads, Sums
from dfc.lower.threads.text.transpose import TransposeWriter
from dfc.lower.threads.tiles import Tiled
from dfc_target_cuda.kernels.write_tensor import TensorLoads, TensorSums


def write_kernel(kernel: Kernel, name: str, schedule: Schedule, *, guarded: bool) -> KernelText:
    """The text of a kernel; `guarded`: it does nothing once a fault was reported."""
    layout, lines, sizes = layout_of(kernel, schedule), Lines(), Sizes()
    writer = _writer(layout, schedule, lines, sizes, guarded=guarded)
    writer.write()
    count = symbol_count(kernel)
    head = signature(name, len(kernel.operands), count, has_workspace=layout.workspace != ZERO)
    first = [*(writer.bounds_check() if guarded else []), *writer.first_lines(), *sizes.lines]
    return KernelText(
        name,
        lines.text(head, first),
        tuple(operand.dtype for operand in kernel.operands),
        count,
        layout.geometry,
        layout.workspace,
        guarded,
        kernel_faults(kernel),
    )


Writer = MapWriter | TransposeWriter | ReduceWriter | ScatterWriter | ScanWriter | ContractWriter


def _writer(layout: LaunchLayout, schedule: Schedule, lines: Lines, sizes: Sizes, *, guarded: bool) -> Writer:
    """What writes a kernel of this layout."""
    match layout:
        case MapLayout():
            return MapWriter(layout, lines, sizes)
        case TransposeLayout():
            return TransposeWriter(layout, lines, sizes)
        case ScatterLayout():
            return ScatterWriter(layout, lines, sizes)
        case ScanLayout():
            return ScanWriter(layout, lines, sizes)
        case StagedLayout():
            return ReduceWriter(layout, lines, sizes, guarded=guarded)
        case Tiled():
            loads, sums = (TensorLoads, TensorSums) if layout.tensor else (FactorLoads, Sums)
            return ContractWriter(layout, schedule, lines, sizes, guarded=guarded, loads=loads, sums=sums)


def signature(name: str, operands: int, sizes: int, *, has_workspace: bool) -> str:
    """The head of the function: operands, sizes, workspace, error."""
    parameters = [slot(number) for number in range(operands)] + [f"d{number}" for number in range(sizes)]
    return f"def {name}({', '.join([*parameters, *(['workspace'] if has_workspace else []), 'error'])}):"
