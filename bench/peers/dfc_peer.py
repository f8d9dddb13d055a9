"""dfc. The program is compiled by a process of its own, as users do it; this one loads the bundle and calls it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import dfc_runtime
from bench.peers.prepared import Prepare, Prepared, Request, adam_training, forward, gradients, training

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
ENTRY = re.compile(r"(?:readonly )?entry (\w+)")
LOAD = dfc_runtime.load  # imports the run side: what it takes is no part of a case

COMPILE = """
import json, os, resource, sys, time
import dfc
compile_program = dfc.compile  # imports the compiler, as a peer is imported before it compiles
path, bundle, settings, isa = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
options = {"variants": [isa]} if isa else {}
start, before = time.perf_counter(), sum(os.times()[:4])
compile_program(path, settings=settings, **options).save(bundle)
seconds, processor = time.perf_counter() - start, sum(os.times()[:4]) - before
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
print(json.dumps({"seconds": seconds, "processor": processor, "megabytes": peak}))
"""


def version(system: str) -> str:
    return getattr(dfc_runtime, "__version__", None) or _distribution_version()


def _distribution_version() -> str:
    from importlib.metadata import version as version_of

    return version_of("dfc")


def one_entry(text: str, entry: str) -> str:
    """A formatted program without its other entries, as peers compile nothing but what is called."""
    kept: list[str] = []
    is_dropped = False
    for line in text.splitlines():
        if match := ENTRY.match(line):
            is_dropped = match[1] != entry
        if not is_dropped:
            kept.append(line)
        if line == "}":
            is_dropped = False
    return "\n".join(kept) + "\n"


def write_program(request: Request, folder: Path) -> Path:
    """The case's program with its one entry, beside the modules that it may import."""
    program = PROGRAMS / request.case.program
    for module in program.parent.glob("*layers.dfg"):
        (folder / module.name).write_bytes(module.read_bytes())
    file = folder / program.name
    text = program.read_text(encoding="utf-8")
    file.write_text(one_entry(text, request.case.entry), encoding="utf-8")
    return file


def first_of(results: Any) -> Any:
    """The value of an entry with one result, be it named or not."""
    return results[0] if isinstance(results, tuple) else results  # pyright: ignore[reportUnknownVariableType]


def compiled(request: Request) -> tuple[Any, dict[str, float]]:
    """A case's program, compiled by a process of its own and loaded here, and what compiling took."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = str(Path(folder) / "case.bundle")
        program = str(write_program(request, Path(folder)))
        settings = json.dumps(dict(request.case.settings(request.sizes)))
        command = [sys.executable, "-P", "-c", COMPILE, program, bundle, settings, json.dumps(request.isa)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(_last_error(run.stderr))
        return LOAD(bundle), json.loads(run.stdout.splitlines()[-1])


class Program:
    """A case's program with the state of the case."""

    def __init__(self, request: Request) -> None:
        self.module, self.costs = compiled(request)
        for name, value in request.data.state.items():
            self.module.state[name] = value
        self.entry = getattr(self.module, request.case.entry)

    def prepared(self, prepared: Prepared) -> Prepared:
        prepared.compile_seconds = self.costs.get("seconds")
        prepared.compile_processor_seconds = self.costs.get("processor")
        prepared.compile_megabytes = self.costs.get("megabytes")
        return prepared

    def state(self, name: str) -> Any:
        return self.module.state[name]


def _last_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line.lower()]
    return (lines or text.splitlines() or ["the compiler ended without a word"])[-1]


def _forward(request: Request) -> Prepared:
    program, feeds = Program(request), request.feeds
    return program.prepared(forward(lambda: program.entry(*feeds), first_of))


def _gradients(request: Request) -> Prepared:
    program, feeds = Program(request), request.feeds
    return program.prepared(gradients(lambda: program.entry(*feeds)))


def _training(request: Request) -> Prepared:
    program, feeds = Program(request), request.feeds
    return program.prepared(training(request, lambda: first_of(program.entry(*feeds)), program.state))


def _adam(request: Request) -> Prepared:
    program, feeds = Program(request), request.feeds
    return program.prepared(adam_training(lambda: first_of(program.entry(*feeds))))


def _embed(request: Request) -> Prepared:
    program, ids = Program(request), request.data.feeds["ids"]

    def results() -> list[Any]:
        program.entry(ids)
        return [np.asarray(program.state("table"))[ids]]

    return program.prepared(Prepared(lambda: program.entry(ids), results))


def _heat(request: Request) -> Prepared:
    program, feeds = Program(request), request.feeds

    def results() -> list[Any]:
        program.entry(*feeds)
        return [np.array(program.state("plate"))]

    return program.prepared(Prepared(lambda: program.entry(*feeds), results))


KINDS: dict[str, Prepare] = {
    "mlp_train": _training,
    "embed": _embed,
    "heat": _heat,
    "lstm_train": _gradients,
    "xf_train": _gradients,
    "attention_train": _gradients,
    "network_train": _training,
    "gpt_train": _adam,
    **dict.fromkeys(("qr", "eigh", "svd", "nbody", "fft"), _gradients),
}


def preparation(system: str, kind: str) -> Prepare | None:
    return KINDS.get(kind, _forward)
