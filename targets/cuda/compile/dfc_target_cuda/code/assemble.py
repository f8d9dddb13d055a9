"""PTX to machine code by `ptxas`, and what it says of each kernel.

Assumes PTX of `compile`. `ptxas` is that of the package nvidia-cuda-nvcc, else the one on PATH; without one a bundle
holds PTX alone, which the driver assembles when it loads it. Guarantees that code which is refused ends in
`CodeGenerationError` with the words of `ptxas`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dfc.bundle.disk_cache import DiskCache, digest, file_identity, user_cache
from dfc.deferred.dataclasses import dataclass
from dfc.kernels.errors import CodeGenerationError

_PACKAGED = ("cu13/bin/ptxas", "cu*/bin/ptxas", "cuda_nvcc/bin/ptxas")
_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_OPTIONS = ("-O3", "--fmad=false", "-v")
_IN_THREADS = (13, "--split-compile=4")
"""The first release of `ptxas` that surely has the option, by which it works on so many kernels at once. The number is
fixed because code names it: equal code on machines of any number of cores."""


@dataclass(frozen=True, slots=True)
class KernelReport:
    """What a kernel takes of a multiprocessor: registers of a thread, bytes of a block's shared memory; bytes of a
    thread's stack, and of registers written to memory for want of registers (spills, in instructions' bytes)."""

    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin and the reports of its kernels, in the order of the module."""

    code: bytes
    reports: tuple[KernelReport, ...]


@functools.cache
def find_ptxas() -> str | None:
    """The assembler's path."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in _PACKAGED:
            for candidate in sorted(Path(folder).glob(pattern)):
                return str(candidate)
    return shutil.which("ptxas")


def assembler_release() -> int:
    """The CUDA release that the assembler is of, such as 13: drivers of that release and later run its code."""
    release = assembler_version().partition(".")[0]
    return int(release) if release else 0


@functools.cache
def assembler_version() -> str:
    """The version of the assembler, such as 13.0.88; empty where there is none, or it tells none."""
    path = find_ptxas()
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout if path else ""
    version = _VERSION.search(output)
    return version[1] if version else ""


def assemble_all(ptx: str, architectures: Sequence[str]) -> dict[str, Assembled]:
    """Machine code for each of these, made at the same time; nothing where there is no `ptxas`."""
    with ThreadPoolExecutor(max(len(architectures), 1)) as workers:
        assembled = workers.map(assemble, [ptx] * len(architectures), architectures)
        return {name: one for name, one in zip(architectures, assembled, strict=True) if one is not None}


def assemble(ptx: str, architecture: str) -> Assembled | None:
    """Machine code for `architecture`, such as sm_90; None where there is no `ptxas`."""
    path = find_ptxas()
    return None if path is None else _kept(path, ptx, architecture)


@functools.lru_cache(maxsize=256)
def _kept(path: str, ptx: str, architecture: str) -> Assembled:
    """From the cache, if it was assembled before."""
    cache, assembler = user_cache(), file_identity(path)
    if not cache.is_on or not assembler:
        return _assembled(path, ptx, architecture)
    name = digest("cubin", assembler, architecture, *_options(), Path(__file__).read_bytes(), ptx)
    known = _read(cache, name)
    if known is None:
        known = _assembled(path, ptx, architecture)
        header = json.dumps([asdict(report) for report in known.reports])
        cache.put({name: header.encode() + b"\n" + known.code})
    return known


def _read(cache: DiskCache, name: str) -> Assembled | None:
    data = cache.get(name)
    if data is None:
        return None
    header, _, code = data.partition(b"\n")
    reports: list[dict[str, Any]] = json.loads(header)
    return Assembled(code, tuple(KernelReport(**report) for report in reports))


def _assembled(path: str, ptx: str, architecture: str) -> Assembled:
    """A second time where registers went to memory only so that more threads find room at once."""
    assembled = _run(path, ptx, architecture)
    spilling = [report.name for report in assembled.reports if report.spill_bytes]
    return _run(path, _with_registers(ptx, spilling), architecture) if spilling else assembled


def _with_registers(ptx: str, kernels: Sequence[str]) -> str:
    """The code with one block of threads on a multiprocessor as enough for these kernels."""
    for name in kernels:
        entry = re.compile(rf"(\.entry {re.escape(name)}\([^)]*\)\s*\.maxntid [^\n]*\n)")
        ptx = entry.sub(r"\1.minnctapersm 1\n", ptx)
    return ptx


def _options() -> tuple[str, ...]:
    release, in_threads = _IN_THREADS
    return (*_OPTIONS, in_threads) if assembler_release() >= release else _OPTIONS


def _run(path: str, ptx: str, architecture: str) -> Assembled:
    with tempfile.TemporaryDirectory(prefix="dfc-") as folder:
        source, target = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(ptx)
        command = [path, f"-arch={architecture}", *_options(), str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CodeGenerationError(f"ptxas refuses the code for {architecture}: {done.stderr.strip()}")
        reports = sorted(_reports(done.stderr), key=lambda report: ptx.index(f".entry {report.name}("))
        return Assembled(target.read_bytes(), tuple(reports))


def _reports(text: str) -> list[KernelReport]:
    """`ptxas -v` names a kernel, then says its stack, then its registers and shared memory."""
    reports: list[KernelReport] = []
    name, stack, spills = "", 0, 0
    for line in text.splitlines():
        if kernel := _KERNEL.search(line):
            name, stack, spills = kernel[1], 0, 0
        elif frame := _STACK.search(line):
            stack, spills = int(frame[1]), int(frame[2]) + int(frame[3])
        elif name and (used := _USED.search(line)):
            shared = _SHARED.search(line)
            reports.append(KernelReport(name, int(used[1]), int(shared[1]) if shared else 0, stack, spills))
            name = ""
    return reports
