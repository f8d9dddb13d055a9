"""Speed of the CPU target's own kernels: `python -m bench.alone.cpu_kernels [--threads N]`.

Prints the measured multiply-add peak, matrix products as a share of it (beside NumPy's), the cost of a fork and join,
and elementary functions. Loops run inside generated code, so the price of calling from Python is not in the figures.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import numpy as np

from dfc.ir.dtypes import F32
from dfc.lower.legalise.elementary import UNARY, elementary
from dfc_driver_cpu.pool import PoolEntries, new_context
from dfc_runtime.code_memory import MappedCode
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.entries.threads import STOP_ENTRY, WORKER_ENTRY, pool_leave, pool_run, stop_entry, worker_entry
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64, vector_type
from dfc_target_cpu.machine import Machine, detect_host
from dfc_target_cpu.product.gemm.general import GEMM_PARAMETERS
from dfc_target_cpu.product.gemm.library import declare_gemm, gemm_library, gemm_workspace_bytes

PRODUCTS = [
    (1024, 1024, 1024, "nn"),
    (1024, 1024, 1024, "nt"),
    (500, 500, 500, "nn"),
    (2048, 2048, 2048, "nn"),
    (64, 2048, 512, "nn"),
    (100, 100, 784, "nn"),
    (784, 100, 100, "tn"),
    (100, 10, 100, "nn"),
    (100, 10, 100, "tn"),
    (100, 100, 10, "nt"),
    (32, 100, 784, "nn"),
    (1, 100, 784, "nn"),
    (1, 100, 784, "nt"),
    (1, 10, 100, "nn"),
    (1, 4096, 4096, "nn"),
    (1, 4096, 4096, "nt"),
]
"""M, N, K, and whether A and B are stored by rows (n) or by columns (t)."""

SECONDS, SLICE = 0.4, 3e-4
"""How long each figure is measured, and in slices of which length."""
PAUSE, PAUSES = 5e-3, 100
"""Seconds after which threads sleep, and how often they are woken."""

_PART = (Parameter("ptr", "context"), Parameter("ptr", "frame"), Parameter("i64", "part"), Parameter("i64", "parts"))
_RUN = (Parameter("ptr", "context"), Parameter("ptr", "frame"), Parameter("i64", "parts"), Parameter("i64", "times"))
_PEAK_CHAINS, _PEAK_REPEATS = 24, 20_000


class Kernels:
    """Everything measured here, in one image."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        module = ModuleText(machine.triple)
        worker_entry(module, machine)
        stop_entry(module, machine)
        parts = {"peak": _peak(module, machine), "product": _product(module), "little": _little_work(module)}
        parts |= {name: _elementary(module, machine, name) for name in UNARY}
        for name, part in parts.items():
            _repeat(module, machine, name, part)
        self.image = build_image([module.text()], machine, libraries=[gemm_library(machine, ("float",))])
        self.loaded = MappedCode(self.image.code)
        self.entries = PoolEntries(
            self.loaded, *(self.loaded.address(self.image.offset(x)) for x in (WORKER_ENTRY, STOP_ENTRY))
        )

    def seconds(self, name: str, frame: int, threads: int) -> float:
        """One fork-join over `threads` parts: the best of many short slices, so that other load matters little."""
        context, run = new_context(self.entries, threads), self.function(name)
        best, times, end = float("inf"), 1, time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            run(ctypes.addressof(context), frame, threads, times)
            best = min(best, (time.perf_counter() - start) / times)
            times = max(1, int(SLICE / best))
        return best

    def function(self, name: str) -> Callable[..., None]:
        """`void (context, frame, parts, times)`"""
        arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return self.loaded.function(self.image.offset(f"run_{name}"), None, arguments)


def _repeat(module: ModuleText, machine: Machine, name: str, part: str) -> None:
    f = module.function(f"run_{name}", "void", _RUN, linkage="external")
    context, frame, parts, times = f.arguments
    with f.counted_loop(i64(0), times):
        f.call(pool_run(module, machine), "void", [context, Value("ptr", f"@{part}"), frame, parts])
    f.call(pool_leave(module, machine), "void", [context])
    f.ret()
    module.add(f)


def _little_work(module: ModuleText) -> str:
    """About a microsecond of dependent multiplications: enough for the other threads to take their parts."""
    f = module.function("little", "void", _PART, attributes="nounwind noinline")
    with f.counted_loop(i64(0), i64(1200)) as loop:
        x = loop.carry(f.argument("part"))
        loop.next(x, f.mul(x, f.argument("parts")))
    f.store(loop.result(x), f.gep("i64", f.argument("frame"), f.mul(f.argument("part"), i64(8))))
    f.ret()
    return module.add(f)


def fork_join(kernels: Kernels, threads: int) -> float:
    """Seconds that a fork and a join add to one part's work, when every thread has one part."""
    frame = aligned(8 * threads, "i8")
    alone, together = (kernels.seconds("little", frame.ctypes.data, n) for n in (1, threads))
    return together - alone


def wake_up(kernels: Kernels, threads: int) -> float:
    """Seconds that a fork and a join add when the other threads sleep: the median over calls with pauses."""
    frame, context = aligned(8 * threads, "i8"), new_context(kernels.entries, threads)
    run = kernels.function("little")
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(PAUSES):
        for parts, times in seconds.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            run(ctypes.addressof(context), frame.ctypes.data, parts, 1)
            times.append(time.perf_counter() - start)
    return float(np.median(seconds[threads]) - np.median(seconds[1]))


def _peak(module: ModuleText, machine: Machine) -> str:
    """Independent chains of multiply-adds in registers; the sum is stored so that nothing is dropped."""
    f = module.function("peak", "void", _PART, attributes="nounwind noinline")
    vector = vector_type(machine.lanes(32), "float")
    factor = f.load(vector, f.argument("frame"))
    with f.counted_loop(i64(0), i64(_PEAK_REPEATS)) as loop:
        chains = [loop.carry(constant(vector, i)) for i in range(_PEAK_CHAINS)]
        for chain in chains:
            loop.next(chain, f.multiply_add(chain, factor, factor))
    total = chains[0]
    for chain in chains[1:]:
        total = f.fadd(total, chain)
    f.store(total, f.gep(vector, f.argument("frame"), f.add(f.argument("part"), i64(1))))
    f.ret()
    return module.add(f)


def _product(module: ModuleText) -> str:
    """The frame holds the product's operands, and per part its own workspace."""
    f = module.function("product", "void", _PART, attributes="nounwind noinline")
    frame, part = f.argument("frame"), f.argument("part")
    operands: list[Value] = []
    for number, parameter in enumerate(GEMM_PARAMETERS):
        value = f.load("i64" if parameter.type == "i1" else parameter.type, f.gep("i64", frame, i64(number)))
        operands.append(f.icmp("ne", value, i64(0)) if parameter.type == "i1" else value)
    operands[14], operands[15] = part, f.argument("parts")
    operands[16] = f.gep("i8", operands[16], f.mul(part, f.load("i64", f.gep("i64", frame, i64(18)))))
    f.call(declare_gemm(module, "float"), "void", operands)
    f.ret()
    return module.add(f)


def _elementary(module: ModuleText, machine: Machine, name: str) -> str:
    """The frame: pointers to input and output, and how many elements a part has."""
    f = module.function(f"map_{name}", "void", _PART, attributes="nounwind noinline")
    source, target, count = _map_frame(f)
    vector = vector_type(machine.lanes(32), "float")
    functions = KernelFunctions(module, machine)
    start = f.mul(f.argument("part"), count)
    with f.counted_loop(start, f.add(start, count), machine.lanes(32)) as loop:
        x = f.load(vector, f.gep("float", source, loop.index))
        f.store(functions.apply(f, elementary(name, F32), x)[0], f.gep("float", target, loop.index))
    f.ret()
    return module.add(f)


def _map_frame(f: FunctionText) -> tuple[Value, Value, Value]:
    frame = f.argument("frame")
    source, target = (f.load("ptr", f.gep("ptr", frame, i64(i))) for i in (0, 1))
    return source, target, f.load("i64", f.gep("i64", frame, i64(2)))


def aligned(count: int, kind: str = "f4") -> np.ndarray:
    raw = np.zeros(count * np.dtype(kind).itemsize + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][: count * np.dtype(kind).itemsize].view(kind)


def peak(kernels: Kernels, threads: int) -> float:
    """GF/s of all threads together."""
    lanes = kernels.machine.lanes(32)
    frame = aligned(lanes * (threads + 1))
    frame[:lanes] = 0.5
    seconds = kernels.seconds("peak", frame.ctypes.data, threads)
    return 2 * lanes * _PEAK_CHAINS * _PEAK_REPEATS * threads / seconds / 1e9


def matrix(rows: int, columns: int, order: str) -> np.ndarray:
    flat = aligned(rows * columns)
    flat[:] = np.random.default_rng(rows + columns).standard_normal(flat.size)
    return flat.reshape(rows, columns) if order == "n" else flat.reshape(columns, rows).T


def product(kernels: Kernels, m: int, n: int, k: int, orders: str, threads: int) -> float:
    """Seconds of one product."""
    a, b, c = matrix(m, k, orders[0]), matrix(k, n, orders[1]), aligned(m * n)
    size = -(-gemm_workspace_bytes(kernels.machine, "float") // 64) * 64
    workspace = aligned(size * threads, "u1")
    strides = [s // 4 for x in (a, b) for s in x.strides]
    operands = [0, 0, a.ctypes.data, *strides[:2], b.ctypes.data, *strides[2:], c.ctypes.data, n]
    frame = np.array([*operands, m, n, k, 0, 0, 0, workspace.ctypes.data, m, size], np.int64)
    seconds = kernels.seconds("product", frame.ctypes.data, threads)
    np.testing.assert_allclose(c.reshape(m, n), a @ b, rtol=0, atol=1e-4 * k)
    return seconds


def numpy_product(m: int, n: int, k: int, orders: str) -> float:
    a, b = matrix(m, k, orders[0]), matrix(k, n, orders[1])
    return best_of(lambda: a @ b)


def best_of(call: Callable[[], object]) -> float:
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def nanoseconds_per_element(kernels: Kernels, name: str) -> float:
    count = 4096
    x, y = aligned(count), aligned(count)
    x[:] = np.linspace(0.01, 8, count)
    frame = np.array([x.ctypes.data, y.ctypes.data, count], np.int64)
    return kernels.seconds(name, frame.ctypes.data, 1) / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    machine = detect_host()
    assert machine is not None, "this processor is below every supported variant"
    kernels = Kernels(machine)
    joined, woken = (1e6 * measure(kernels, options.threads) for measure in (fork_join, wake_up))
    print(f"{machine.name}; fork and join {joined:.2f} us, of sleeping threads {woken:.2f} us")
    peaks = {threads: peak(kernels, threads) for threads in (1, options.threads)}
    print("peak", {threads: f"{value:.0f} GF/s" for threads, value in peaks.items()})
    for m, n, k, orders in PRODUCTS:
        line = f"{m}x{n}x{k} {orders}"
        if options.only not in line:
            continue
        for threads, top in peaks.items():
            seconds = product(kernels, m, n, k, orders, threads)
            rate = 2 * m * n * k / seconds / 1e9
            line += f"  | {threads} thr {seconds * 1e6:9.2f} us {rate:4.0f} GF/s {100 * rate / top:3.0f} %"
        print(line, f" | numpy {numpy_product(m, n, k, orders) * 1e6:.2f} us", flush=True)
    if not options.only:
        for name in UNARY:
            print(f"{name} {nanoseconds_per_element(kernels, name):.3f} ns per element")


if __name__ == "__main__":
    main()
