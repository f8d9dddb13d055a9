"""Which contractions are convolutions on a machine, by which algorithm, how they are cut, and the memory that takes.

Pure analysis. Guarantees that a kernel with a plan is the product of an image and a matrix of the type of its sums.
"""

import functools
from collections.abc import Sequence

from dfc.kernels.access import NONE
from dfc.kernels.contractions import as_product
from dfc.kernels.direct.blocking import Forward, Resources, Summing, forward, summing
from dfc.kernels.direct.geometry import windows
from dfc.kernels.form import ContractKernel, Kernel
from dfc.kernels.winograd.tiling import Winograd, winograd
from dfc.kernels.winograd.transforms import TAPS
from dfc_target_cpu.llvm.values import bit_width, byte_size
from dfc_target_cpu.machine import WITHOUT_WINOGRAD, Machine
from dfc_target_cpu.windows.tables import Plan

_LINE = 64
COUNTER_BYTES = _LINE
"""Of what parts share: a counter of items, in a cache line of its own."""


@functools.cache
def resources(machine: Machine, element: str) -> Resources:
    """What of a machine decides how convolutions of an element type are cut."""
    return Resources(
        machine.lanes(bit_width(element)),
        byte_size(element),
        machine.vector_registers,
        machine.fused_multiply_add,
        machine.l1_bytes,
        machine.l2_bytes,
    )


@functools.lru_cache(maxsize=1024)
def plan_windows(kernel: ContractKernel, machine: Machine) -> Plan | None:
    """How a contraction is made as a convolution; None if it is none, or better made otherwise."""
    product = as_product(kernel)
    if product is None or product.widens:
        return None
    seen = windows(kernel)
    if seen is None:
        return None
    have = resources(machine, product.element)
    minimal = winograd(seen, have) if machine.winograd else None
    return minimal or forward(seen, have) or summing(seen, have)


def aligned(size: int) -> int:
    """Bytes in whole cache lines."""
    return -(-size // _LINE) * _LINE


def part_layout(plan: Plan, element: str, lanes: int, *, tile: bool) -> tuple[int, int, int, int]:
    """Of the memory of each part: where the chunk of the other factor and the tile of sums begin, how many elements a
    row of the tile has, and the bytes of all. The band is the first; what `Winograd` lists lies there instead."""
    size, width = byte_size(element), max(plan.panels.widths) * lanes
    if isinstance(plan, Winograd):
        sums = plan.sums_elements if tile else 0
        return 0, 0, width, aligned((plan.part_elements + sums) * size + _LINE)
    if isinstance(plan, Forward):
        chunk, rows = 0, plan.band.rows * plan.every_y * plan.count_x
    else:
        chunk, rows = plan.chunk_positions * width * plan.copies, plan.rows
    chunk_at = aligned(plan.band.elements * size + _LINE)
    tile_at = aligned(chunk_at + chunk * size)
    return chunk_at, tile_at, width, aligned(tile_at + (rows * width * size if tile else 0))


def packed_bytes(plan: Plan, element: str) -> int:
    """Bytes that all parts share."""
    if isinstance(plan, Summing):
        return 0
    return COUNTER_BYTES + aligned(plan.packed_elements * byte_size(element))


def planned_windows(kernels: Sequence[Kernel], machine: Machine) -> list[tuple[ContractKernel, Plan, str]]:
    """The kernels that are direct convolutions, with their plans and element types."""
    planned: list[tuple[ContractKernel, Plan, str]] = []
    for kernel in kernels:
        plan = plan_windows(kernel, machine) if isinstance(kernel, ContractKernel) else None
        product = as_product(kernel) if isinstance(kernel, ContractKernel) and plan is not None else None
        if plan is not None and product is not None:
            planned.append((product.kernel, plan, product.element))
    return planned


def count_winograd(kernels: Sequence[Kernel], machine: Machine) -> int:
    """How many of these are made by Winograd's algorithm."""
    return sum(isinstance(plan, Winograd) for _, plan, _ in planned_windows(kernels, machine))


def schedule_in_words(kernel: Kernel, machine: Machine) -> str:
    """How a convolution is made; nothing of other kernels."""
    plan = plan_windows(kernel, machine) if isinstance(kernel, ContractKernel) else None
    if isinstance(plan, Winograd):
        fewer = (TAPS * plan.tile / plan.span) ** 2
        return (
            f"is made by Winograd's algorithm in tiles of {plan.tile} x {plan.tile}, with {fewer:.3g} times "
            f"fewer products (`--isa {machine.name}{WITHOUT_WINOGRAD}` makes it directly)"
        )
    return "" if plan is None else "is a direct convolution"


def windows_workspace_bytes(kernel: ContractKernel, plan: Plan, element: str, machine: Machine) -> int:
    """Scratch memory of each part."""
    product = as_product(kernel)
    assert product is not None
    return part_layout(plan, element, resources(machine, element).lanes, tile=product.direct == NONE)[-1]
