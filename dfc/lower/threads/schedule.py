"""What the layout of kernels depends on beside them, and how a launch of one is spread over blocks of threads."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim


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
