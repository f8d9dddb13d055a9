"""Measures products on a GPU, by kernels and by cuBLASLt: `python -m bench.gpu.products [--seconds S]`.

For each type and size the rates of a bare product, and the time of a product with something after it in one kernel
and apart; and whether what `product_costs` chooses is faster. Without a GPU, or without the library, it says so in one
line. What it prints are the numbers that `product_costs.RATES` and its neighbours stand for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import dfc
from bench.gpu.cases import copy_rate, times_of
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.libraries.product_costs import Work, pays
from dfc_runtime.devices import newest
from dfc_runtime.errors import DfcError

SHAPES = (
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (4096, 4096, 4096),
    (4096, 1024, 64),
    (1024, 1024, 8192),
)
TYPES = ("f32", "bf16", "f16", "f64")
KERNELS, LIBRARY = "0", "all"
TEXT = """dfg 1

readonly entry placed[M, K](x: f32[M, K]) -> (y: TYPE[M, K]) { return (x * 1) as TYPE }

readonly entry bare[M, K, N](x: TYPE[M, K], w: TYPE[K, N]) -> (y: TYPE[M, N]) { return x @ w }

readonly entry followed[M, K, N](x: TYPE[M, K], w: TYPE[K, N]) -> (y: TYPE[M, N]) { return tanh(x @ w) }
"""


@contextmanager
def products_by(maker: str) -> Iterator[None]:
    """Programs that are loaded meanwhile leave all products to kernels, or all to the library."""
    before = os.environ.get("DFC_CUBLASLT")
    os.environ["DFC_CUBLASLT"] = maker
    try:
        yield
    finally:
        if before is None:
            del os.environ["DFC_CUBLASLT"]
        else:
            os.environ["DFC_CUBLASLT"] = before


def calls(dtype: str, shape: tuple[int, int, int], architecture: str) -> dict[tuple[str, str], Callable[[], object]]:
    """Calls by entry and maker, with factors on the device."""
    m, k, n = shape
    rng = np.random.default_rng(1)
    code = dfc.compile(text=TEXT.replace("TYPE", dtype), target="cuda", variants=[architecture]).to_bytes()
    timed: dict[tuple[str, str], Callable[[], object]] = {}
    for maker in (KERNELS, LIBRARY):
        with products_by(maker):
            model = dfc.loads(code, results="device")
        x, w = (model.placed(rng.standard_normal(size, dtype=np.float32)).y for size in ((m, k), (k, n)))
        for entry in ("bare", "followed"):
            function = getattr(model, entry)
            timed[entry, maker] = lambda function=function, x=x, w=w: function(x, w)
    return timed


def measure(dtype: str, shape: tuple[int, int, int], architecture: str, seconds: float) -> str:
    """One line."""
    m, k, n = shape
    best: dict[tuple[str, str], float] = {}
    systems = calls(dtype, shape, architecture)
    for _ in range(3):  # in turns
        for which, call in systems.items():
            best[which] = min(best.get(which, 1e9), *times_of(call, seconds / 3))
    operations = 2 * m * k * n
    rates = [operations / best["bare", maker] / 1e12 for maker in (KERNELS, LIBRARY)]
    apart = pays(Work(n, m, k, 1, dtype, dtype), 1, apart=True)
    one, two = best["followed", KERNELS], best["followed", LIBRARY]
    right = "right" if apart == (two < one) else "WRONG"
    return (
        f"{dtype:<5}{m:>6} x {k:>5} x {n:>5}  bare: kernel {rates[0]:7.2f}, library {rates[1]:7.2f} Tflop/s"
        f"   followed: one kernel {one * 1e6:8.1f} us, apart {two * 1e6:8.1f} us"
        f"   chosen {'apart' if apart else 'one'}: {right}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.products")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each program, type and shape")
    asked = parser.parse_args()
    try:
        architecture = newest(libcuda.device_bits(0))
    except DfcError as problem:
        print(f"no device: {problem}")
        return
    device = libcuda.open_device(0)
    library = device.matrix_library
    device.close()
    if library is None:
        print("no library: cuBLASLt is not installed (pip install nvidia-cublas), or DFC_CUBLASLT=0")
        return
    print(f"{architecture}; copies {copy_rate() / 1e9:.0f} GB/s; times are those of whole calls")
    for dtype in TYPES:
        for shape in SHAPES:
            print(measure(dtype, shape, architecture, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
