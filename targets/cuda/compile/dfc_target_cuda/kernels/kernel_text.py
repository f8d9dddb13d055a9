"""A kernel of this target as text: the contract between what writes it, what compiles it and what plans its launches.

Assumes kernels of `dfc.kernels.form`. Guarantees that equal kernels under equal schedules give equal texts, so that
each is compiled once, and that a launch needs nothing but the operands' addresses, the sizes and what stands here.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Schedule:
    """How kernels are laid out on the device.

    `threads` is the size of a block of element-wise and row kernels, a power of two and a multiple of `warp`; `warp`
    the lanes that exchange values by shuffles (32 on every device; fewer in a simulation, where a lane costs a thread
    of the host). `vector_bytes` is the widest access, `blocks` the most blocks of a grid that strides over its points.
    A product works on tiles of `tile_m` x `tile_n` x `tile_k`; each thread has `thread_m` x `thread_n` sums.
    `tensor_cores`: whether warps multiply f16 and bf16 in small matrices; `tf32`: f32 too, rounded to 11 bits.
    """

    threads: int = 256
    warp: int = 32
    vector_bytes: int = 16
    blocks: int = 2048
    tile_m: int = 64
    tile_n: int = 64
    tile_k: int = 16
    thread_m: int = 4
    thread_n: int = 4
    tensor_cores: bool = True
    tf32: bool = False


ZEROED = 4096
"""Bytes at the start of a workspace that are zero when a kernel begins."""

DEVICE = Schedule()
SIMULATED = Schedule(threads=8, warp=4, blocks=4, tile_m=4, tile_n=4, tile_k=2, thread_m=2, thread_n=2)
"""Small blocks: a simulation runs each lane in a thread of the host."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks = clamp(ceil(`points` / `per_block`), 1, `most`), each of `threads` threads; all in one dimension.

    `points` is a formula over the symbols d0, d1, ... of the kernel; nothing is launched where it is zero.
    """

    points: Dim
    per_block: int
    threads: int
    most: int


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
