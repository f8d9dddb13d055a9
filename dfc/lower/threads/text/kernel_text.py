"""A kernel as text: the contract between what writes it, what compiles it and what plans its launches.

Assumes kernels of `dfc.kernels.form`. Guarantees that equal kernels under equal schedules give equal texts, so that
each is compiled once, and that a launch needs nothing but the operands' addresses, the sizes and what stands here.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType
from dfc.lower.threads.schedule import Geometry


@dataclass(frozen=True, slots=True)
class KernelText:
    """One function `def NAME(a, b, .., d0, d1, .., [workspace,] error):` in the names of the prelude.

    `pointers` are the element types of the operands' memory (bool as u8, f16 and bf16 as u16 in the prelude's terms),
    in the order of the operand slots. `workspace` is its size in bytes as a formula, zero if there is no such
    parameter; its first `ZEROED` bytes are zero when the kernel begins, and nothing else uses it meanwhile. With
    `guarded` it does nothing once a fault was reported; `faults` says whether it may report one.
    """

    name: str
    source: str
    pointers: tuple[DType, ...]
    sizes: int
    geometry: Geometry
    workspace: Dim = Dim(())
    guarded: bool = False
    faults: bool = False
