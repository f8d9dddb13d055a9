"""Matrix products as an object of their own beside the program's code.

Assumes the program's module calls what `declare_gemm` names, and is linked with the text of `gemm_library`. Guarantees
the same text for the same machine, element types and class of widths: the object is compiled once a process.

A form is left out only where the sizes of the program rule it out: those of long rows and those of few rows are each a
quarter of the text. Widths of layers are mostly numbers, and rows a batch times a number of places or of pixels.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.gemm.general import GEMM_PARAMETERS, gemm
from dfc_target_cpu.product.gemm.narrow import NARROW_PARAMETERS, has_narrow, narrow
from dfc_target_cpu.product.gemm.pack import PACK_PARAMETERS
from dfc_target_cpu.product.gemm.shape import ANY_WIDTH, gemm_shape
from dfc_target_cpu.product.gemm.turned import TURNED_PARAMETERS, gemm_turned


def declare_gemm(module: ModuleText, element: str) -> str:
    """The name to call in a module that is linked with the library: `void (GEMM_PARAMETERS)`."""
    return _declared(module, f"gemm_{element}", GEMM_PARAMETERS)


def declare_turned(module: ModuleText, element: str) -> str:
    """Likewise where the second factor lies in panels: `void (TURNED_PARAMETERS)`."""
    return _declared(module, f"gemm_turned_{element}", TURNED_PARAMETERS)


def declare_pack_columns(module: ModuleText, element: str) -> str:
    """Likewise what packs a second factor whose columns lie together: `void (PACK_PARAMETERS)`."""
    return _declared(module, f"gemm_pack_columns_{element}", PACK_PARAMETERS)


def declare_pack_rows(module: ModuleText, element: str) -> str:
    """Likewise what packs a second factor whose rows lie together: `void (PACK_PARAMETERS)`."""
    return _declared(module, f"gemm_pack_rows_{element}", PACK_PARAMETERS)


def declare_narrow(module: ModuleText, element: str) -> str:
    """Likewise for products with few columns, on machines that have tiles for them: `void (NARROW_PARAMETERS)`."""
    return _declared(module, f"gemm_narrow_{element}", NARROW_PARAMETERS)


def _declared(module: ModuleText, name: str, parameters: Sequence[Parameter]) -> str:
    module.declare_hidden(name, "void", [parameter.type for parameter in parameters])
    return name


@functools.cache
def gemm_library(
    machine: Machine, elements: Sequence[str], widest: int = ANY_WIDTH, *, has_few_rows: bool = True
) -> str:
    """The module text with the products of these element types, none of which has more columns than `widest`, and some
    of which may have `FEW_ROWS` or less."""
    module = ModuleText(machine.triple)
    for element in elements:
        shape = replace(gemm_shape(machine, element), widest=widest)
        shape = shape if has_few_rows else shape.without_few_rows()
        gemm(module, shape)
        gemm_turned(module, shape)
        if has_narrow(shape):
            narrow(module, shape)
    return module.text()


def gemm_workspace_bytes(machine: Machine, element: str) -> int:
    """Scratch memory each part needs, whatever the sizes; aligned to 64 bytes."""
    return gemm_shape(machine, element).workspace_bytes
