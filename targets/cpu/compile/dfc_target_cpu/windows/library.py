"""The loops of convolutions as objects of their own beside the program's code.

Assumes a program that calls what `declare` names, and is linked with the texts of `libraries`. Guarantees equal texts
for equal machines, element types, widths of panels and heights of tiles: each is compiled once, whatever the sizes of
convolutions. Tiles of a height that no line of the program is cut into are left out.
"""

import functools

from dfc.kernels.direct.blocking import Forward, Resources, Summing
from dfc.kernels.form import ContractKernel
from dfc.kernels.winograd.tiling import Winograd
from dfc_target_cpu.llvm.text import ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import bit_width
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.windows.filters import pack_filter, pack_name, way_of_packing
from dfc_target_cpu.windows.forward import forward_item, forward_name
from dfc_target_cpu.windows.kernels import LINE_PARAMETERS, POSITIONS, TAPS, TileShape, line, tile_heights
from dfc_target_cpu.windows.plans import resources
from dfc_target_cpu.windows.summing import summing_name, summing_panel
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, Plan
from dfc_target_cpu.windows.winograd import winograd_item, winograd_name
from dfc_target_cpu.windows.winograd_filters import transform_filter, transform_name

_NUMBER = Parameter("i64", "")


def declare(module: ModuleText, name: str, numbers: int) -> str:
    """A function of the library that takes a plan, a state and so many numbers."""
    module.declare_hidden(name, "void", [one.type for one in (*PLAN_PARAMETERS, *(_NUMBER,) * numbers)])
    return name


def line_address(module: ModuleText, plan: Plan, element: str, machine: Machine, vectors: int) -> Value:
    """The function of lines for panels of so many vectors."""
    name = _tile_shape(plan, element, resources(machine, element), vectors).line
    module.declare_hidden(name, "void", [one.type for one in LINE_PARAMETERS])
    return Value("ptr", f"@{name}")


def _tile_shape(plan: Plan, element: str, machine: Resources, vectors: int) -> TileShape:
    walk = TAPS if isinstance(plan, Summing) else POSITIONS
    return TileShape(walk, element, machine.lanes, machine.tile_rows(vectors), vectors)


def libraries(machine: Machine, planned: list[tuple[ContractKernel, Plan, str]]) -> list[str]:
    """The texts that kernels with these plans and element types are linked with."""
    texts: dict[str, None] = {}
    heights: dict[TileShape, set[int]] = {}
    for _, plan, element in planned:
        if isinstance(plan, Winograd):
            texts[_winograd(machine, element, plan.tile)] = None
            texts[_transforming(machine, element, way_of_packing(plan), plan.tile)] = None
        else:
            texts[_loops(machine, element, type(plan))] = None
        if isinstance(plan, Forward):
            texts[_packing(machine, element, way_of_packing(plan))] = None
        for vectors in plan.panels.widths:
            shape = _tile_shape(plan, element, resources(machine, element), vectors)
            heights.setdefault(shape, set()).update(_heights(plan, shape.rows))
    return [*texts, *(_lines(machine, shape, tuple(sorted(needed))) for shape, needed in heights.items())]


def _heights(plan: Plan, most: int) -> set[int]:
    """The heights of tiles that lines of a plan may have; the last line of `Winograd` follows from the batch."""
    if isinstance(plan, Winograd):
        return set(range(1, most + 1))
    if isinstance(plan, Forward):
        counts = {part.count_x for part in plan.parts}
    else:
        counts = {min(plan.piece, plan.inner - first) for first in range(0, plan.inner, plan.piece)}
    return set().union(*(tile_heights(count, most) for count in counts))


@functools.cache
def _loops(machine: Machine, element: str, kind: type[Forward] | type[Summing]) -> str:
    module, lanes = ModuleText(machine.triple), machine.lanes(bit_width(element))
    (forward_item if kind is Forward else summing_panel)(module, element, lanes)
    return module.text()


@functools.cache
def _packing(machine: Machine, element: str, way: str) -> str:
    module = ModuleText(machine.triple)
    pack_filter(module, element, machine.lanes(bit_width(element)), way)
    return module.text()


@functools.cache
def _winograd(machine: Machine, element: str, tile: int) -> str:
    module = ModuleText(machine.triple)
    winograd_item(module, element, machine.lanes(bit_width(element)), tile)
    return module.text()


@functools.cache
def _transforming(machine: Machine, element: str, way: str, tile: int) -> str:
    module = ModuleText(machine.triple)
    transform_filter(module, element, machine.lanes(bit_width(element)), way, tile)
    return module.text()


@functools.cache
def _lines(machine: Machine, shape: TileShape, heights: tuple[int, ...]) -> str:
    module = ModuleText(machine.triple)
    line(module, shape, heights)
    return module.text()


__all__ = [
    "declare",
    "forward_name",
    "libraries",
    "line_address",
    "pack_name",
    "summing_name",
    "transform_name",
    "winograd_name",
]
