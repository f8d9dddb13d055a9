"""One system and one case in a process: prepares, then measures slices of time when it is told to.

    python -P bench/comparison/worker.py MODULE SYSTEM CASE '{"small": false, "isa": null, "results": "FILE.npz"}'

Run as a file, not as a module of the project: in a system's environment the project's root is not on the path, so that
`dfc` is the one that the environment has installed, whichever checkout that is. Answers are lines of JSON on the
standard output of the start; what systems print goes to the standard error. The first answer says `ready`, `absent` or
`failed`; then each line `{"measure": SECONDS}` is answered by the microseconds of calls, `{"memory": true}` by what
the calls needed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

LEAST_CALLS, LEAST_MEASURED = 1, 20e-6
MEGABYTE = 1 << 20


def install_package(root: Path) -> None:
    """Makes `bench` importable from its folder, and nothing beside it."""
    file = root / "bench" / "__init__.py"
    spec = importlib.util.spec_from_file_location("bench", file, submodule_search_locations=[str(file.parent)])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench"] = module
    spec.loader.exec_module(module)


def measure(call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Microseconds per call; calls too short for the clock are timed in groups of up to 100."""
    start = clock()
    call()
    group = max(1, min(100, int(LEAST_MEASURED / max(clock() - start, 1e-7))))
    times: list[float] = []
    end = clock() + seconds
    while len(times) < LEAST_CALLS or clock() < end:
        start = clock()
        for _ in range(group):
            call()
        times.append((clock() - start) / group * 1e6)
    return times


def resident_bytes(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_of_a_call(call: Callable[[], object]) -> int:
    """Most resident memory of the process while a call runs; what was freed before is given back first."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark starts over
    except OSError:
        pass
    call()
    return max(resident_bytes("VmHWM"), resident_bytes("VmRSS"))


class Worker:
    """A system that has imported what it needs. `baseline` is what the process holds by then."""

    def __init__(self, words: Sequence[str], options: Mapping[str, Any], answer: Callable[[object], None]) -> None:
        from bench.cases import CASES

        name, system, case = words
        module = import_module(name)
        self.baseline = resident_bytes("VmRSS")
        self.answer, self.case, self.options = answer, CASES[case], options
        self.prepare, self.version = module.preparation(system, self.case.kind), module.version(system)

    def start(self) -> bool:
        """Prepares the case and saves its results; whether the system has the case."""
        import numpy as np

        from bench.peers.prepared import Request

        if self.prepare is None:
            self.answer({"absent": "the system has no way to say this case"})
            return False
        sizes = self.case.at(bool(self.options["small"]))
        data = self.case.data(sizes)
        start = time.perf_counter()
        prepared = self.prepare(Request(self.case, sizes, data, self.options.get("isa")))
        results = [np.array(value) for value in prepared.results()]
        first = time.perf_counter() - start
        np.savez(self.options["results"], *results)
        del data, results
        self.call = prepared.call
        self.call()
        start = time.perf_counter()
        self.call()
        once = time.perf_counter() - start
        seconds = prepared.compile_seconds
        self.answer(
            {
                "ready": True,
                "version": self.version,
                "compile_seconds": max(0.0, first - once) if seconds is None else seconds,
                "compile_processor_seconds": prepared.compile_processor_seconds,
                "compile_megabytes": prepared.compile_megabytes,
                "amount": prepared.amount,
                "notes": prepared.notes,
            }
        )
        return True

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            if "measure" in request:
                self.answer({"times": measure(self.call, float(request["measure"]))})
            else:
                peak = peak_of_a_call(self.call)
                self.answer({"megabytes": round((peak - self.baseline) / MEGABYTE, 1)})


def main() -> None:
    *words, options = sys.argv[1:]
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message: object) -> None:
        print(json.dumps(message), file=channel, flush=True)

    install_package(Path(__file__).resolve().parents[2])
    try:
        worker = Worker(words, json.loads(options), answer)
    except ImportError as missing:
        answer({"absent": str(missing)})
        return
    try:
        if worker.start():
            worker.serve()
    except Exception as error:  # whatever a system raises is its answer
        traceback.print_exc()
        answer({"failed": f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:300]})


if __name__ == "__main__":
    main()
