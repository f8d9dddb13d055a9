"""Figures that are no ratio: compile time, size, loading, memory, very large programs. Each returns a dictionary."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.alone.recurrent import lstm_step
from bench.ranks.on_ranks import transfers

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SAMPLES = PROGRAMS.parents[1] / "samples"
RUNS = 5
Figure = dict[str, float]


def cold_compile() -> Figure:
    """`dfc compile` of the training program as a whole process, in seconds, and the size of the bundle in KB."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "mlp.bundle"
        command = [sys.executable, "-m", "dfc.cli.main", "compile", str(PROGRAMS / "mlp.dfg"), "-o", str(bundle)]
        seconds = [_seconds(command) for _ in range(RUNS + 1)][1:]
        return {"median_s": round(statistics.median(seconds), 3), "bundle_kb": round(bundle.stat().st_size / 1024, 1)}


def cuda_compile() -> Figure:
    """`dfc compile --target cuda` of samples for sm_90 as whole processes, in seconds of all processors: when nothing
    was compiled before, and again."""
    figure: Figure = {}
    for name in ("digits", "lstm", "transformer", "convnet"):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "dfc.cli.main",
                "compile",
                str(SAMPLES / f"{name}.dfg"),
                "--target",
                "cuda",
            ]
            command += ["--arch", "sm_90", "-o", f"{folder}/{name}.bundle"]
            for what in ("first", "again"):
                figure[f"{name}_{what}_s"] = round(_processor_seconds(command, DFC_CACHE=f"{folder}/cache"), 2)
    return figure


def command_start() -> Figure:
    """`dfc --help` and `dfc check` of a sample as whole processes, in milliseconds."""
    check = [sys.executable, "-m", "dfc.cli.main", "check", str(PROGRAMS / "mlp.dfg")]
    helps = [sys.executable, "-m", "dfc.cli.main", "--help"]
    return {
        "help_ms": round(statistics.median(_seconds(helps) for _ in range(RUNS)) * 1e3, 1),
        "check_ms": round(statistics.median(_seconds(check) for _ in range(RUNS)) * 1e3, 1),
    }


LOAD_SCRIPT = """
import sys, time, resource
start = time.perf_counter()
import numpy as np, dfc_runtime
imported = time.perf_counter()
model = dfc_runtime.load(sys.argv[1])
loaded = time.perf_counter()
model.train(images=np.zeros((100, 784), np.float32), labels=np.zeros(100, np.int32))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(round((imported - start) * 1e3, 1), round((loaded - imported) * 1e3, 1), round(peak, 1))
"""


def load() -> Figure:
    """Importing NumPy and the run side, loading the training bundle with its state, peak memory after a step."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "mlp.bundle"
        _seconds([sys.executable, "-m", "dfc.cli.main", "compile", str(PROGRAMS / "mlp.dfg"), "-o", str(bundle)])
        rows = [
            [float(w) for w in _output([sys.executable, "-c", LOAD_SCRIPT, str(bundle)]).split()] for _ in range(RUNS)
        ]
    imported, loaded, peak = (statistics.median(column) for column in zip(*rows, strict=True))
    return {"import_ms": imported, "load_ms": loaded, "peak_mb": peak}


ROWS_PROGRAM = """dfg 1
from std.optim import {optimiser}
param table: f32[{rows}, 16] = 0.5
param bias: f32[{rows}] = 0.1
var optimiser = {optimiser}(params(program))
entry train[B](ids: i32[B]) -> f32 {{
  let loss = mean(square(sum(table[ids], axis = 1) + bias[ids]))
  optimiser.step(loss)
  return loss
}}
"""
ROWS_SCRIPT = """
import sys, time
import numpy as np, dfc, dfc_runtime
model = dfc_runtime.loads(dfc.compile(text=sys.argv[1]).to_bytes(), threads=1)
rng = np.random.default_rng(1)
batches = [rng.integers(0, int(sys.argv[2]), 32).astype(np.int32) for _ in range(200)]
best = float("inf")
for _ in range(20):
    start = time.perf_counter()
    for ids in batches:
        model.train(ids)
    best = min(best, (time.perf_counter() - start) / len(batches))
print(best * 1e6)
"""


def rows() -> Figure:
    """A training step that reads 32 rows of tables with 1e5, 1e6 and 1e7 rows, in microseconds."""
    figure: Figure = {}
    for optimiser in ("Sgd", "AdaGrad"):
        for power in (5, 6, 7):
            text = ROWS_PROGRAM.format(optimiser=optimiser, rows=10**power)
            microseconds = float(_output([sys.executable, "-c", ROWS_SCRIPT, text, str(10**power)]))
            figure[f"{optimiser.lower()}_1e{power}_us"] = round(microseconds, 1)
    return figure


def large_graph() -> Figure:
    """Compiling 36,000 nodes of layers and updates, in seconds."""
    return _compile_text(large_program(36_000))


def long_chain() -> Figure:
    """Compiling a chain of 100,000 element-wise ops, in seconds."""
    lines = [f"  let x = x * {1 + (i % 7) * 1e-7:.8f} + 0.5" for i in range(50_000)]
    body = "\n".join(lines)
    return _compile_text(f"dfg 1\n\nreadonly entry chain[N](x: f32[N]) -> (y: f32[N]) {{\n{body}\n  return x\n}}\n")


def large_program(nodes: int) -> str:
    """A deep network of small layers: about 12 nodes a layer, none of them alike in size to its neighbours."""
    layers = nodes // 12
    lines = ["dfg 1", "", "readonly entry deep[B](x: f32[B, 16]) -> (y: f32[B, 16]) {"]
    for i in range(layers):
        lines.append(f"  let h = x * {0.5 + (i % 11) / 100} + {(i % 5) / 10}")
        lines.append("  let m = mean(h, axis = 1, keep_dims = true)")
        lines.append("  let d = h - m")
        lines.append("  let v = mean(d * d, axis = 1, keep_dims = true)")
        lines.append("  let x = tanh(d * rsqrt(v + 1e-3)) + x * 0.1")
    lines += ["  return x", "}", ""]
    return "\n".join(lines)


def _compile_text(text: str) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        program, bundle = Path(folder) / "program.dfg", Path(folder) / "program.bundle"
        program.write_text(text, encoding="utf-8")
        seconds = _seconds([sys.executable, "-m", "dfc.cli.main", "compile", str(program), "-o", str(bundle)])
        return {"seconds": round(seconds, 2), "bundle_kb": round(bundle.stat().st_size / 1024, 1)}


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_environment()).stdout


def _environment() -> dict[str, str]:
    """The environment, with compiled Python files allowed: that is how an installed package runs."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _processor_seconds(command: list[str], **environment: str) -> float:
    """Of a process and all that it starts."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment() | environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
    return time.perf_counter() - start


FIGURES: dict[str, Callable[[], Figure]] = {
    "cold_compile": cold_compile,
    "cuda_compile": cuda_compile,
    "command_start": command_start,
    "load": load,
    "rows": rows,
    "lstm_step": lstm_step,
    "large_graph": large_graph,
    "long_chain": long_chain,
    "transfers": transfers,
}
