"""Damaged folders of checkpoints: links, FIFOs, folders and nothing where files are wanted, flipped bytes, manifests
that say odd things and have their hash. Looking, restoring, saving and `dfc run` end in time with a result or an error
that has a code; what is restored is what was saved; and nothing outside of the folder changes.

    python -m tests.gate.checkpoints [COUNT] [--seed N]
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from dfc.cli.failures import guarded
from dfc.cli.main import cli
from dfc.driver import api
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.files import Disk, write_file
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.checkpoints.parts import Part, TaskFile
from dfc_runtime.distributed.launch import epochs
from dfc_runtime.distributed.shards import rows_of
from dfc_runtime.errors import DfcError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.cluster import SHARD_RULES
from tests.support import gating

COUNT = 1000
MEMORY = 512 << 20
DEAD = 2**22 + 12345
PROGRAM = """dfg 1
param w: f32[5] = 0
var steps: i64 = 0
entry train(x: f32) -> (total: f32) {
  w += x
  steps += 1
  return sum(w)
}
readonly entry look() -> (total: f32) { return sum(w) }
"""
Damage = Callable[[random.Random, Path, Path], str]
"""Does something to a folder of checkpoints, and says what. The other path is of a checkpoint elsewhere."""


# ------------------------------------------------------------------ folders --


def state(number: int) -> list[Saved]:
    return [Saved("steps", "i64", (), np.array(number)), Saved("w", "f32", (5,), np.full(5, number, np.float32))]


def of_two_tasks(number: int, rule: str) -> store.Contents:
    """Writes the same state as two tasks do that share out `w`."""

    def write(disk: Disk, folder: Path, about: About) -> str:
        steps, w = state(number)
        described: dict[str, TaskFile] = {}
        for task in (0, 1):
            rows = w.array[rows_of(rule, 5, 2, task)]
            own = [*([steps] if task == 0 else []), Saved("w", "f32", rows.shape, rows)]
            data = format.task_file(own)
            write_file(disk, folder / format.task_name(task), data)
            types = {each.name: (each.dtype, each.shape) for each in own}
            weighed = format.weighed(data)
            described[format.task_name(task)] = TaskFile(
                weighed.size, weighed.sha256, types, {"w": Part(rule, 0, 2, task)}
            )
        return format.manifest_of(about, {each.name: (each.dtype, each.shape) for each in (steps, w)}, described)

    return write


def filled(rng: random.Random, folder: Path) -> None:
    """One to four checkpoints of one task or two, each of which holds its number."""
    for number in range(1, rng.randint(1, 4) + 1):
        progress = {"entry": "train", "steps": number, "total": 9, "run": "0" * 32} if rng.random() < 0.5 else {}
        about = About(number, "m", rng.choice((None, 0.5)), progress)
        contents = of_two_tasks(number, rng.choice(SHARD_RULES)) if rng.random() < 0.4 else state(number)
        store.publish(folder, about, contents, numbered=True, keep=rng.choice((None, 2, 9)))


def checkpoint_in(rng: random.Random, folder: Path) -> Path:
    return rng.choice(sorted(path for path in folder.glob("step-?") if path.is_dir() and not path.is_symlink()))


def file_in(rng: random.Random, folder: Path) -> Path:
    """A file that is one, and small: damages come on top of each other."""
    files = (path for path in checkpoint_in(rng, folder).iterdir() if path.is_file() and not path.is_symlink())
    return rng.choice(sorted(path for path in files if path.stat().st_size < 1 << 20))


# ------------------------------------------------------------------ damages --


def flipped(rng: random.Random, folder: Path, _: Path) -> str:
    path = file_in(rng, folder)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 8)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"flipped in {path.name}"


def cut(rng: random.Random, folder: Path, _: Path) -> str:
    path = file_in(rng, folder)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(rng.choice((0, 1, 8, max(size - 1, 0), size + 1, rng.randrange(size + 1), 1 << 40)))
    return f"cut {path.name}"


def something_else(rng: random.Random, path: Path, archive: Path) -> str:
    """Puts something that is no file of a checkpoint under a free name."""
    kind = rng.choice(("nothing", "pipe", "folder", "loose", "loop", "endless", "socket", "there", "file", "hard"))
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
            (path / "more").touch()
        case "loose":
            path.symlink_to("nowhere")
        case "loop":
            path.symlink_to(path)
        case "endless":
            path.symlink_to("/dev/zero")
        case "socket":
            there = os.getcwd()
            os.chdir(path.parent)  # its path may be long, and that of a socket may not
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
                made.bind(path.name)
            os.chdir(there)
        case "there":
            path.symlink_to(archive)
        case "file":
            path.write_bytes(rng.randbytes(rng.choice((0, 1, 100))))
        case "hard":
            path.hardlink_to(archive / format.TASK_FILE)
        case _:
            return "nothing"
    return kind


def other_file(rng: random.Random, folder: Path, archive: Path) -> str:
    path = file_in(rng, folder)
    path.unlink()
    return f"{path.name} is {something_else(rng, path, archive)}"


def other_checkpoint(rng: random.Random, folder: Path, archive: Path) -> str:
    path = checkpoint_in(rng, folder)
    shutil.rmtree(path)
    return f"{path.name} is {something_else(rng, path, archive)}"


def leftover(rng: random.Random, folder: Path, archive: Path) -> str:
    name = rng.choice((f"step-9.tmp-{DEAD}", f"step-9.tmp-{os.getpid()}", f"step-5.tmp-{os.getpid()}"))
    if os.path.lexists(folder / name):
        return "nothing more"
    return f"{name} is {something_else(rng, folder / name, archive)}"


def odd_name(rng: random.Random, folder: Path, archive: Path) -> str:
    name = rng.choice(
        ("step-0", "step-007", "step-x", "step-", "step-8", "step-\x1b[31m", "step-9\n", f"step-{10**18 - 2}", "épochs")
    )
    if os.path.lexists(folder / name):
        return "nothing more"
    return f"{name!r} is {something_else(rng, folder / name, archive)}"


def odd_epochs(rng: random.Random, folder: Path, archive: Path) -> str:
    path = folder / store.EPOCHS
    if os.path.lexists(path):
        return "nothing more"
    if rng.random() < 0.5:
        return f"epochs is {something_else(rng, path, archive)}"
    path.mkdir()
    for name in rng.sample(("1", "007", "x", "9" * 18, "9" * 19, "²", "-3"), 3):
        (path / name).touch()
    return "epochs has odd names"


def odd_value(rng: random.Random) -> object:
    deep: object = 1
    for _ in range(rng.choice((1, 99, 2000))):
        deep = [deep]
    odd: list[object] = [None, True, -1, 0, 1, 2, 10**17, 2**63, 10**400, 0.5, 1e308, "", "x", "\x1b[2J\u202e", [], {}]
    odd += ["step-1", "task-0.safetensors", "../task-0.safetensors", {"": 0}, [[]], ["f32"], ["f32", 10**15], deep]
    return rng.choice(odd)


def odd_manifest(rng: random.Random, folder: Path, _: Path) -> str:
    """A manifest with another value somewhere, and the hash of that."""
    path = checkpoint_in(rng, folder) / format.MANIFEST
    if not path.is_file() or path.stat().st_size > 1 << 20:
        return "nothing more"
    try:
        data = json.loads(path.read_text())
    except ValueError:
        return "nothing more"
    where, inner = "", data
    while True:
        key = rng.choice([*inner, "keep", "progress", "score"])
        where += f".{key}"
        if isinstance(inner.get(key), dict) and inner[key] and rng.random() < 0.7:
            inner = inner[key]
            continue
        break
    if isinstance(inner.get(key), list) and inner[key] and rng.random() < 0.5:
        inner, key = inner[key], rng.randrange(len(inner[key]))  # of a type, or of a part
        inner[key] = odd_value(rng)
    match "done" if isinstance(inner, list) else rng.choice(("set", "set", "set", "drop", "rename")):
        case "done":
            pass
        case "set":
            inner[key] = odd_value(rng)
        case "drop":
            inner.pop(key, None)
        case _:
            inner[rng.choice(("\u0000", "x" * 5000, "w", "../w"))] = inner.pop(key, 0)
    data.pop("sha256", None)
    with contextlib.suppress(RecursionError):  # which the text would meet, too
        text = strict_json.dump(data)
        path.write_text(strict_json.dump({**data, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    return f"manifest{where[:60]}"


DAMAGES: tuple[Damage, ...] = (
    flipped,
    cut,
    other_file,
    other_checkpoint,
    leftover,
    odd_name,
    odd_epochs,
    odd_manifest,
)


# -------------------------------------------------------------------- cases --


@cache
def bundle() -> str:
    """The path of a compiled program."""
    made = tempfile.TemporaryDirectory(prefix="dfc-checkpoints-")
    _KEPT.append(made)
    path = Path(made.name) / "m.bundle"
    api.compile(text=PROGRAM).save(path)
    return str(path)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def outcome(*words: object) -> tuple[int, str]:
    """How a command of this process ends, and what it says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = guarded(lambda: cli.main([str(word) for word in words], prog_name="dfc", standalone_mode=False))
    return code, out.getvalue() + err.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def whole(found: store.ChosenCheckpoint) -> str:
    """What is wrong with a checkpoint that was found: each holds one number everywhere."""
    state = found.checkpoint.state
    numbers = {float(each) for saved in state.values() for each in saved.array.reshape(-1)}
    return "" if len(numbers) <= 1 else f"{found.path.name} was found whole, and holds {numbers}"


def looked_at(folder: Path) -> str:
    """What is not well when a folder is read."""
    for path in (folder, *sorted(folder.glob("step-*"))[:6]):
        for best in (False, True):
            with contextlib.suppress(DfcError):
                fault = whole(store.find(path, best=best))
                if fault:
                    return fault
    store.newest_about(folder)
    store.holds_nothing(folder)
    store.is_checkpoint(folder)
    return ""


def saved_in(folder: Path) -> str:
    """What is not well when a folder is saved to. A number may be the last one there is."""
    try:
        made = store.publish(folder, About(0, "m"), state(50))
    except DfcError as problem:
        return "" if problem.code in ("E0908", "E0909") else f"saving: {problem}"
    found = store.find(folder)
    if found.path != made or found.checkpoint.state["steps"].array != 50:
        return f"{made.name} was saved, and {found.path.name} is found"
    return ""


def ran(folder: Path) -> str:
    """What is not well when commands use a folder."""
    train = ("run", bundle(), "train", "--feed", "x=1", "--state", folder)
    for words in (
        ("run", bundle(), "look", "--state", folder),
        (*train, "--steps", 2, "--save-every", 1),
        (*train, "--steps", 2, "--save-every", 1),
        train,
        ("run", bundle(), "look", "--from", folder),
    ):
        code, told = outcome(*words)
        if code not in (0, 5, 6) or "Traceback" in told or "a bug in dfc" in told or "\x1b" in told:
            return f"{' '.join(map(str, words[2:]))}: exit code {code}\n{told[-1000:]}"
    return ""


def cases(seed: int) -> gating.Case:
    """The cases of a seed."""
    bundle()

    def case(number: int) -> str:
        rng = gating.generator(number, seed)
        with tempfile.TemporaryDirectory(prefix="dfc-checkpoints-") as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root, folder = Path(name), Path(name) / "state"
            archive = store.publish(root / "archive", About(1, "m"), state(7))
            filled(rng, folder)
            chosen = [DAMAGES[number % len(DAMAGES)], *rng.choices(DAMAGES, k=rng.choice((0, 0, 1, 2)))]
            done: list[str] = []
            for damage in chosen:
                with contextlib.suppress(IndexError):  # there is nothing left to damage
                    done.append(damage(rng, folder, archive))
            before = contents(root / "archive")
            tries = [looked_at, ran, saved_in, looked_at] if rng.random() < 0.5 else [saved_in, looked_at, ran]
            fault = next((text for text in (each(folder) for each in tries) if text), "")
            with contextlib.suppress(DfcError):
                epochs.check(folder, epochs.take(folder))
            if not fault and contents(root / "archive") != before:
                fault = "what lies outside of the folder has changed"
            if not fault and sorted(path.name for path in root.iterdir()) != ["archive", "state"]:
                fault = "something has appeared outside of the folder"
        return f"{'; '.join(done)}: {fault}" if fault else ""

    return case


if __name__ == "__main__":
    sys.exit(gating.main(__doc__ or "", cases, COUNT, memory=MEMORY))
