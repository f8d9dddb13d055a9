"""Damaged programs, deployment files, traces and profiles: every command that reads one ends with messages or does its
work, without a bug of dfc, a signal or a hang; what `dfc fmt` prints is what it prints again.

    python -m tests.gate.texts [COUNT] [--seed N]
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build
from tests.support import gating
from tests.support.corpus import CORPUS, DEPLOYMENTS
from tests.support.mutants import edit

COUNT = 5000
MEMORY = 2 << 30
CODES = (0, 2, 3, 7)
WORD = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d[\w.]*|\s+|[^\w\s]')
PIECES = (
    "\x00", "\x1b[2J", "\u202e", "\ufeff", "\u2028", "\r", "\r\n", "\t", "\\", '"', "'", "é", "𝔘", "#", "##",
    "{", "}", "(", ")", "[", "]", "=>", ":=", "+=", "..", "...", "?", "$", "@", "1e999999", "9" * 5000, "0x", "0b",
    "1_",
    ".5", "5.", "-" * 200, "(" * 300, "[" * 300, "{" * 300, "if x then " * 100, "x" * 70_000, "\n" * 1000, "entry",
    "fn",
    "let", "param", "var", "test", "block", "each", "for", "while", "loop", "where", "grad", "as", "return", "import",
    "from", "with", "const", "job", "tasks", "place", "on", "shard", "axis", "over", "by", "replicate", "compress",
    "checkpoint", "every", "step", "nan", "inf", "true", "None", "f32[B]", "f32[", "i64", "bool", "rng", "program",
    "'\\u{110000}'", '"\\u{d800}"',
)  # fmt: skip
KINDS_OF_EVENTS = ("kernel", "host", "wait", "receive", "send", "combination", "entry")
TRACE = {
    "otherData": {"program": "p", "ranks": [{"rank": 0, "name": "rank 0"}, {"rank": 1, "name": "rank 1"}]},
    "traceEvents": [
        {
            "ph": "X",
            "pid": n % 2,
            "tid": n % 3,
            "ts": n,
            "dur": 3,
            "cat": kind,
            "name": "a, b",
            "args": {"place": "p:1"},
        }
        for n, kind in enumerate(("kernel", "host", "wait", "receive", "send", "combination", "entry"))
    ],
}
PROFILE = {
    "format": "dfc profile 1", "program": "digits", "overhead": 1e-8, "blocks": {"train": 8},
    "kernels": [{"entry": "train", "names": ["train/loss", "w"], "seconds": 1e-6, "launches": 9, "place": "d.dfg:3"}],
}  # fmt: skip


def disturbed(text: str, rng: random.Random) -> str:
    """A text with a few words or letters changed."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        words = WORD.findall(text)
        place = rng.randrange(len(words) + 1)
        action = rng.randrange(7)
        if action == 0:
            text = "".join((*words[:place], rng.choice(PIECES), *words[place:]))
        elif action == 1:
            text = "".join((*words[:place], *words[place + rng.choice((1, 1, 5, 50)) :]))
        elif action == 2:
            text = "".join((*words[:place], rng.choice(words or [""]), *words[place + 1 :]))
        elif action == 3:
            start = rng.randrange(len(words) + 1)
            text = "".join((*words[:place], *words[start : start + rng.randrange(40)], *words[place:]))
        elif action == 4:
            text = text[: rng.randrange(len(text) + 1)]
        elif action == 5:
            letter = rng.randrange(len(text) + 1)
            text = text[:letter] + chr(rng.choice((rng.randrange(128), rng.randrange(0xD800)))) + text[letter + 1 :]
        else:
            lines = text.splitlines(keepends=True)
            rng.shuffle(lines)
            text = "".join(lines)
    return text


def as_bytes(text: str, rng: random.Random) -> bytes:
    """Now and then bytes that are no text."""
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        place = rng.randrange(len(data) + 1)
        data = data[:place] + rng.randbytes(rng.choice((1, 3))) + data[place:]
    return data


Case = Callable[[random.Random, Path], str]


def program(rng: random.Random, folder: Path) -> str:
    source = rng.choice(CORPUS)
    (folder / "x.dfg").write_bytes(as_bytes(disturbed(source.read_text(), rng), rng))
    last = rng.choice(
        (["show"], ["params"], ["check", "--shapes"], ["check", "--format", "json"], ["test", "-k", "zz"])
    )
    return fault_of(["check"], folder / "x.dfg") or formatted(folder / "x.dfg") or fault_of(last, folder / "x.dfg")


def deployment(rng: random.Random, folder: Path) -> str:
    source = rng.choice(DEPLOYMENTS)
    text = source.read_text()
    for each in re.findall(r'for "([^"]*)"', text):
        if (source.parent / each).exists():
            (folder / Path(each).name).write_bytes((source.parent / each).read_bytes())
    (folder / "x.deploy").write_bytes(as_bytes(disturbed(text, rng), rng))
    return fault_of(["check"], folder / "x.deploy") or formatted(folder / "x.deploy")


def trace(rng: random.Random, folder: Path) -> str:
    (folder / "t.json").write_bytes(edited(TRACE, rng))
    return fault_of(["trace"], folder / "t.json", (0, 2, 6))


def profile(rng: random.Random, folder: Path) -> str:
    samples = Path(__file__).parents[2] / "samples"
    (folder / "p.json").write_bytes(edited(PROFILE, rng))
    words = ["place", str(samples / "digits.dfg"), "--deploy", str(samples / "digits.deploy"), "--profile"]
    return fault_of(words, folder / "p.json", (0, 2, 6))


def edited(data: dict[str, object], rng: random.Random) -> bytes:
    made = json.loads(json.dumps(data))
    for _ in range(rng.choice((0, 1, 1, 3))):
        edit(made, rng)
    text = json.dumps(made)
    return as_bytes(disturbed(text, rng) if rng.random() < 0.5 else text, rng)


def long(rng: random.Random, folder: Path) -> str:
    """As many statements, or as long an expression, as texts may have."""
    count = rng.choice((1000, 5000, 20_000))
    kind = rng.randrange(4)
    if kind == 0:
        lines = "".join(f"  let v{i + 1} = relu(v{i})\n" for i in range(count))
        text = f"entry f(x: f32) -> f32 {{\n  let v0 = x\n{lines}  return v{count}\n}}\n"
    elif kind == 1:
        text = f"entry f(x: f32) -> f32 {{ return x{' + x' * count} }}\n"
    elif kind == 2:
        text = "".join(f"fn f{i}(x: f32) -> f32 = x + y\n" for i in range(count // 10))
    else:
        text = "".join(f"var v{i}: f32 = 0\n" for i in range(count // 5))
    (folder / "x.dfg").write_text(text)
    return fault_of(["check"], folder / "x.dfg")


def a_hundred_thousand_statements(_: random.Random, folder: Path) -> str:
    lines = "".join(f"  let v{i + 1} = relu(v{i})\n" for i in range(100_000))
    text = f"entry f(x: f32) -> f32 {{\n  let v0 = x\n{lines}  return v100000\n}}\n"
    nodes = len(build(SourceFile("long.dfg", text)).entries["f"].block.nodes)
    return "" if nodes == 100_000 else f"{nodes} nodes"


def no_file(rng: random.Random, folder: Path) -> str:
    path = folder / rng.choice(("x.dfg", "x.deploy", "x.json"))
    target = rng.choice(("/dev/zero", "/dev/null", "/proc/self/mem", str(folder), str(path), "/dev/full", "none"))
    os.symlink(target, path)
    words = rng.choice((["check"], ["fmt", "--check"], ["show"], ["trace"], ["compile", "-o", str(folder / "o")]))
    return fault_of(words, path, (0, 2, 3, 6))


def formatted(path: Path) -> str:
    """Formats it twice."""
    before = path.read_bytes()
    fault = fault_of(["fmt"], path)
    once = path.read_bytes()
    if fault or once == before:
        return fault
    fault = fault_of(["fmt"], path, (0,))
    return fault or ("" if path.read_bytes() == once else f"formatted again it is another text: {once!r}")


def fault_of(words: list[str], path: Path, codes: tuple[int, ...] = CODES) -> str:
    """What a command says that it should not; "" if nothing."""
    code, out, err = gating.outcome(*words, str(path))
    if code in codes and "a bug in dfc" not in err and "Traceback" not in err and bool(err or out or not code):
        return ""
    return f"{' '.join(words)}: exit code {code}\n{err[-800:]}"


KINDS: tuple[Case, ...] = (*[program] * 10, *[deployment] * 4, *[trace] * 2, profile, no_file, program, deployment)


def cases(seed: int) -> gating.Case:
    """The cases of a seed."""

    def case(number: int) -> str:
        rng = gating.generator(number, seed)
        kind = KINDS[number % len(KINDS)]
        if number % 500 == 499:
            kind = long if number % 5000 != 4999 else a_hundred_thousand_statements
        with tempfile.TemporaryDirectory(prefix="dfc-text-") as name:
            found = kind(rng, Path(name))
        return f"{kind.__name__}: {found}" if found else ""

    return case


if __name__ == "__main__":
    sys.exit(gating.main(__doc__ or "", cases, COUNT, memory=MEMORY))
