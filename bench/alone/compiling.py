"""How long programs take to compile that are large, wide or deep, in processor time: `python -m bench.alone.compiling`.

Each program is compiled as its user would, by a process of its own that finds nothing in the cache on disk, on one core
(`--cores`) unless more are asked for. Processor time counts that of all processes that compile; memory is the most that
one of them held. A program that is refused says with which code. `--write DIR` writes the programs instead, `--stages`
shows the stages that took most. Needs an x86-64 Linux; other work on the machine moves processor time by some percent.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Timer

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SAMPLES = PROGRAMS.parents[1] / "samples"
LONGEST = 600.0
"""Seconds after which a program is given up."""
SHOWN = 4
"""How many stages `--stages` shows."""
_STAGE = re.compile(r"^\s*([0-9.]+) ms  (.+)$", re.MULTILINE)
_CODE = re.compile(r"error\[(E\d+)\]: (.+)")


def wide_concat(parts: int) -> str:
    """As many different values, one after the other in one tensor."""
    lines = [f"  let part_{n} = tanh(x * w[{n}] + {n % 4}.5)" for n in range(parts)]
    names = ", ".join(f"part_{n}" for n in range(parts))
    head = f"readonly entry wide[B](x: f32[B, 4], w: f32[{parts}]) -> (y: f32[B, {4 * parts}]) {{"
    return "\n".join(["dfg 1", "", head, *lines, f"  return concat([{names}], axis = 1)", "}", ""])


def wide_split(parts: int) -> str:
    """One tensor in as many parts, each of which is kept by itself."""
    names = ", ".join(f"part_{n}" for n in range(parts))
    head = [f"var sum_{n}: f32[4] = 0.0" for n in range(parts)]
    lines = [f"  sum_{n} += mean(tanh(part_{n}), axis = 0)" for n in range(parts)]
    entry = f"entry wide[B](x: f32[B, {4 * parts}]) -> f32 {{"
    taken = f"  let {names} = split(x, {parts}, axis = 1)"
    return "\n".join(["dfg 1", "", *head, "", entry, taken, *lines, "  return mean(x)", "}", ""])


def doubling_calls(levels: int) -> str:
    """Functions each of which calls the one before twice: 2 ** levels calls of the first."""
    lines = ["dfg 1", "", "fn level0[N](x: f32[N]) -> f32[N] = sin(x) * 0.5 + 0.25"]
    for level in range(1, levels + 1):
        lines.append(f"fn level{level}[N](x: f32[N]) -> f32[N] = level{level - 1}(x) + level{level - 1}(x * {level}.5)")
    lines += ["", "readonly entry doubled[N](x: f32[N]) -> (y: f32[N]) {", f"  return level{levels}(x)", "}", ""]
    return "\n".join(lines)


def nested_gradients(depth: int) -> str:
    """The gradient of a gradient of a gradient, and so on."""
    lines = ["dfg 1", "", "fn level0(x: f64) -> f64 = sin(x) * exp(x * 0.5)"]
    lines += [f"fn level{n}(x: f64) -> f64 = grad(level{n - 1}(x), x)" for n in range(1, depth + 1)]
    lines += ["", f"readonly entry derived(x: f64) -> (y: f64) {{\n  return level{depth}(x)\n}}", ""]
    return "\n".join(lines)


def lets(count: int) -> str:
    """One long chain of statements."""
    lines = [f"  let x = x * {1 + (n % 7) * 1e-7:.8f}" for n in range(count)]
    body = "\n".join(lines)
    return f"dfg 1\n\nreadonly entry chain[N](x: f32[N]) -> (y: f32[N]) {{\n{body}\n  return x\n}}\n"


def parameters(count: int) -> str:
    """Parameters each of which has a line that updates it."""
    lines = ["dfg 1", ""]
    lines += [f"param w{n}: f32[{8 + n % 5}] = normal(0, 0.02)" for n in range(count)]
    lines += ["", "entry step(rate: f32) -> f32 {"]
    lines += [f"  w{n} -= rate * tanh(w{n})" for n in range(count)]
    lines += ["  return rate", "}", ""]
    return "\n".join(lines)


def _file(path: Path) -> Callable[[], Path]:
    return lambda: path


def _text(make: Callable[[int], str], count: int) -> Callable[[], str]:
    return lambda: make(count)


CASES: dict[str, tuple[str, Callable[[], Path | str]]] = {
    "gpt_12": ("compile", _file(PROGRAMS / "gpt_12.dfg")),
    "resnet50": ("compile", _file(SAMPLES / "zoo" / "resnet50.dfg")),
    "digits_check": ("check", _file(SAMPLES / "digits.dfg")),
    "concat_50": ("compile", _text(wide_concat, 50)),
    "concat_200": ("compile", _text(wide_concat, 200)),
    "concat_1000": ("compile", _text(wide_concat, 1_000)),
    "split_50": ("compile", _text(wide_split, 50)),
    "split_200": ("compile", _text(wide_split, 200)),
    "split_1000": ("compile", _text(wide_split, 1_000)),
    "doubling_12": ("compile", _text(doubling_calls, 12)),
    "gradients_25": ("compile", _text(nested_gradients, 25)),
    "lets_100000_check": ("check", _text(lets, 100_000)),
    "lets_100000": ("compile", _text(lets, 100_000)),
    "parameters_2000": ("compile", _text(parameters, 2_000)),
}
"""What is asked of `dfc`, and the program: a file of the tree, or a text."""


def measured(name: str, command: str, program: Path, cores: Sequence[int], stages: int) -> str:
    """A line of the table: processor and elapsed seconds, memory, the size of the bundle or the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        bundle, output = Path(folder) / "program.bundle", Path(folder) / "output"
        words = [sys.executable, "-m", "dfc", command, str(program)]
        words += ["-o", str(bundle), "--time-passes"] if command == "compile" else []
        start = time.perf_counter()
        with output.open("wb") as file:
            pinned = ["taskset", "--cpu-list", ",".join(map(str, cores)), *words]
            process = subprocess.Popen(pinned, stdout=file, stderr=subprocess.STDOUT, env=_environment())
        alarm = Timer(LONGEST, process.kill)
        alarm.start()
        _, status, used = os.wait4(process.pid, 0)
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed, text = time.perf_counter() - start, output.read_text(encoding="utf-8", errors="replace")
        refused = _CODE.search(text)
        result = f"{bundle.stat().st_size / 1024:.0f} KB" if bundle.exists() else f"exit {process.returncode}"
        outcome = f"{refused[1]} {refused[2]}" if refused else result
        processor = used.ru_utime + used.ru_stime
        line = f"{name:20} {processor:7.2f} s {elapsed:7.2f} s {used.ru_maxrss / 1024:6.0f} MB  {outcome}"
        longest = sorted(((float(ms), stage) for ms, stage in _STAGE.findall(text)), reverse=True)
        return "\n".join([line, *(f"{'':22}{ms:9.1f} ms  {stage}" for ms, stage in longest[:stages])])


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"DFC_CACHE": "0"}


def _program(name: str, folder: Path) -> Path:
    program = CASES[name][1]()
    if isinstance(program, Path):
        return program
    path = folder / f"{name}.dfg"
    path.write_text(program, encoding="utf-8")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.alone.compiling", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--cores", type=int, default=1, help="on how many processors of those that there are")
    parser.add_argument("--stages", action="store_true", help=f"the {SHOWN} stages that took most, too")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the programs there instead")
    arguments = parser.parse_args()
    names: list[str] = arguments.names or list(CASES)
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        for name in names:
            print(_program(name, arguments.write))
        return 0
    cores = sorted(os.sched_getaffinity(0))[-arguments.cores :]
    print(f"{'program':20} {'processor':>9} {'elapsed':>9} {'memory':>9}  result")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            program = _program(name, Path(folder))
            print(measured(name, CASES[name][0], program, cores, SHOWN if arguments.stages else 0), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
