"""Measures on a GPU: `python -m bench.gpu [--seconds S] [--json FILE] [CASE ...]`. Without one it says so, in one line.

Feeds and results stay on the device for every system; a call is over when its results are there. Systems take turns in
one process, and the best and the median call are printed, with what the best one is of the limit of the device: copies
of memory for what moves numbers, the fastest product of any system for what multiplies.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dfc
from bench.gpu import peers
from dfc.driver.api import compile_source, read
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_driver_cuda import libcuda
from dfc_runtime.devices import newest
from dfc_runtime.errors import DfcError

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
WARM_UP, LEAST_CALLS, TURNS = 5, 10, 3
NAMES = (
    *("null", "eltwise", "softmax", "layernorm", "product", "mlp_predict", "mlp_train"),
    *("convolve", "convolve_train"),
)
COPY_BYTES = 1 << 30
Call = Callable[[], object]

TRANSFER = """dfg 1

readonly entry floats[R, C](x: f32[R, C]) -> (y: f32[R, C]) {
  return x * 1
}

readonly entry ids[N](x: i32[N]) -> (y: i32[N]) {
  return x + 0
}
"""


@dataclass(frozen=True)
class Case:
    """`entry` of the programs of the benchmark, with feeds. `moved` are the bytes that have to be read and written at
    least, `multiplied` the multiplications and additions of products; what is 0 is no limit."""

    program: str
    entry: str
    feeds: tuple[np.ndarray, ...]
    moved: int = 0
    multiplied: int = 0


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    long, rows, square = normal(1 << 26), normal(1 << 14, 4096), 4096
    a, b = normal(square, square), normal(square, square)
    images, labels = normal(4096, 784), rng.integers(0, 10, 4096, dtype=np.int32)
    layers = 2 * 4096 * (784 * 100 + 100 * 10)
    image, kernel = normal(32, 56, 56, 64), normal(3, 3, 64, 64) * np.float32(0.05)
    convolution = 2 * 32 * 56 * 56 * 9 * 64 * 64
    return {
        "null": Case("cases", "null", (np.float32(1), np.float32(2))),
        "eltwise": Case("cases", "eltwise", (long,), moved=2 * long.nbytes),
        "softmax": Case("cases", "softmax_rows", (rows,), moved=2 * rows.nbytes),
        "layernorm": Case("cases", "layernorm_rows", (rows,), moved=2 * rows.nbytes),
        "product": Case("cases", "product", (a, b), multiplied=2 * square**3),
        "mlp_predict": Case("mlp", "predict", (images,), multiplied=layers),
        "mlp_train": Case("mlp", "train", (images, labels), multiplied=3 * layers),
        "convolve": Case("convolve", "convolve", (image, kernel), multiplied=convolution),
        "convolve_train": Case("convolve", "convolve_train", (image,), multiplied=5 * convolution),
    }


class Dfc:
    """Programs of this compiler, with all arrays on the device."""

    name = "dfc"

    def __init__(self, architecture: str) -> None:
        self._options = TargetOptions((architecture,))
        self._models: dict[str, Any] = {}
        self._transfer = dfc.loads(
            dfc.compile(text=TRANSFER, target="cuda", variants=[architecture]).to_bytes(), results="device"
        )

    def call(self, case: Case) -> Call:
        if case.program not in self._models:
            options = CompileOptions("cuda", target_options=self._options)
            bundle = compile_source(read(PROGRAMS / f"{case.program}.dfg"), options)
            self._models[case.program] = dfc.loads(bundle.to_bytes(), results="device")
        function = getattr(self._models[case.program], case.entry)
        feeds = [self._on_device(feed) for feed in case.feeds]
        return lambda: function(*feeds)

    def _on_device(self, array: np.ndarray) -> object:
        if not array.shape:
            return array
        if array.dtype == np.int32:
            return self._transfer.ids(array).y
        on_device = self._transfer.floats(array.reshape(-1, array.shape[-1])).y
        on_device.resize(array.shape)
        return on_device


def times_of(call: Call, seconds: float) -> list[float]:
    """Seconds of each call, for so long."""
    for _ in range(WARM_UP):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < LEAST_CALLS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def copy_rate() -> float:
    """Bytes a second that copying on the device reads and writes."""
    device = libcuda.open_device(0)
    with device.current():
        source, target = device.allocate(COPY_BYTES), device.allocate(COPY_BYTES)
        driver = device.api

        def copy() -> None:
            device.do("cuMemcpyDtoD", driver.CUdeviceptr(target), driver.CUdeviceptr(source), COPY_BYTES)
            device.do("cuCtxSynchronize")

        best = min(times_of(copy, 0.5))
        device.free(source)
        device.free(target)
    device.close()
    return 2 * COPY_BYTES / best


Row = Mapping[str, Sequence[float]]


def measured(case: str, spec: Case, systems: Sequence[Any], seconds: float) -> Row:
    """Times of each system that has the case, in turns; who fails says why and is left out."""
    rates: dict[str, list[float]] = {}
    calls: dict[str, Call] = {}
    for turn in range(TURNS):
        for system in systems:
            try:
                if turn == 0:
                    call = system.call(spec) if system.name == "dfc" else system.call(case, spec.feeds)
                    calls |= {system.name: call} if call is not None else {}
                if system.name in calls:
                    rates.setdefault(system.name, []).extend(times_of(calls[system.name], seconds / TURNS))
            except Exception as problem:  # of another library: whatever it is, the others are measured
                calls.pop(system.name, None)
                print(f"{case}: {system.name} failed: {type(problem).__name__}: {str(problem)[:100]}", flush=True)
    return rates


def limits_of(spec: Case, row: Row, copied: float, multiplied: float) -> str:
    """How near the best call of dfc comes to what the device can."""
    if not row.get("dfc"):
        return ""
    best = min(row["dfc"])
    if spec.moved:
        return f"{spec.moved / best / 1e9:.0f} GB/s, {spec.moved / best / copied:.0%} of copying"
    if spec.multiplied and multiplied:
        rate = spec.multiplied / best
        return f"{rate / 1e12:.2f} Tflop/s, {rate / multiplied:.0%} of the fastest product"
    return ""


def show(case: str, row: Row, names: Sequence[str], limits: str) -> None:
    cells = [f"{min(row[n]) * 1e6:.1f} ({statistics.median(row[n]) * 1e6:.1f})" if row.get(n) else "-" for n in names]
    print(f"{case:<12}" + "".join(f"{cell:>24}" for cell in cells) + f"   {limits}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each system and case")
    parser.add_argument("--json", metavar="FILE", help="write all times")
    asked = parser.parse_args()
    try:
        architecture = newest(libcuda.device_bits(0))
    except DfcError as problem:
        print(f"no device: {problem}")
        return
    chosen = asked.cases or list(NAMES)
    if unknown := [name for name in chosen if name not in NAMES]:
        parser.error(f"there is no case {unknown[0]}; there are {', '.join(NAMES)}")
    known = cases()
    systems = [Dfc(architecture), *peers.present()]
    names = [system.name for system in systems]
    copied = copy_rate()
    print(f"{architecture}; copies {copied / 1e9:.0f} GB/s; microseconds: best (median)")
    print(" " * 12 + "".join(f"{name:>24}" for name in names))
    rows = {case: measured(case, known[case], systems, asked.seconds) for case in chosen}
    product = [min(times) for times in rows.get("product", {}).values() if times]
    multiplied = known["product"].multiplied / min(product) if product else 0.0
    for case, row in rows.items():
        show(case, row, names, limits_of(known[case], row, copied, multiplied))
    if asked.json:
        Path(asked.json).write_text(json.dumps({"architecture": architecture, "copy": copied, "times": rows}))
