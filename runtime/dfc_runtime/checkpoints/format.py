"""One checkpoint: a folder with `manifest.json` and one safetensors file per task.

The manifest holds the format's number, the step, the program's name, how many tasks wrote it, size and hash of each
file, and its own hash; and, where it was given them, a score, how far which run had come, and how many checkpoints are
to stay in the folder. Tensors carry the full names
of the state they are. Where several tasks wrote it, it says which state is in which file, and which rows of it if it
is sharded; what is read is whole, whoever wrote it.

Assumes nothing of the bytes. Guarantees that what `read` returns has the hashes the manifest states; anything else is
a `ValueError` that says what is wrong.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.checkpoints.parts import Assembly, Part, Saved, TaskFile, Types
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import FileError, counted
from dfc_runtime.formats import fields, strict_json, tensors
from dfc_runtime.formats.element_types import STORED_AS, stored_shape
from dfc_runtime.formats.source import FileSource, Source
from dfc_runtime.formats.tensors import NewTensor

Array = NDArray[np.generic]

FORMAT = 1
MANIFEST = "manifest.json"
TASK_FILE = "task-0.safetensors"
MAXIMUM_MANIFEST = 64 << 20


Progress = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Ends:
    """Of a program with runners: the queues that were closed, and the runners that had come to their end."""

    closed: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class About:
    """What a checkpoint says of itself. The lower the `score`, the better; `progress` is for whoever saved it; `keep`
    is how many are to stay beside it, if somebody has said so; `ends` are those of queues and runners."""

    step: int
    program: str
    score: float | None = None
    progress: Progress = field(default_factory=dict[str, "int | str"])
    keep: int | None = None
    ends: Ends = field(default_factory=Ends)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says and holds."""

    about: About
    state: Mapping[str, Saved]


def task_file(state: Iterable[Saved]) -> list[bytes | memoryview]:
    """The bytes of a task's file."""
    contents = [
        NewTensor(each.name, STORED_AS[each.dtype], stored_shape(each.dtype, each.shape), _bytes(each.array))
        for each in state
    ]
    return list(tensors.write(contents, {"format": "dfc.checkpoint"}))


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def manifest_text(about: About, state: Iterable[Saved], file: Iterable[bytes | memoryview]) -> str:
    """The manifest that belongs to a task's file."""
    types = {each.name: (each.dtype, each.shape) for each in state}
    return manifest_of(about, types, {TASK_FILE: weighed(file)})


def weighed(file: Iterable[bytes | memoryview]) -> TaskFile:
    """What a manifest says of a file, by its bytes."""
    digest, size = hashlib.sha256(), 0
    for piece in file:
        digest.update(piece)
        size += len(piece)
    return TaskFile(size, digest.hexdigest())


def manifest_of(about: About, state: Types, files: Mapping[str, TaskFile]) -> str:
    """The manifest of these files. `state` are the types of what they hold together."""
    data: dict[str, object] = {
        "format": FORMAT,
        "step": about.step,
        "program": about.program,
        "tasks": len(files),
        "state": {name: [dtype, *shape] for name, (dtype, shape) in state.items()},
        "files": {name: _file_record(file) for name, file in files.items()},
    }
    if about.score is not None:
        data["score"] = about.score
    if about.progress:
        data["progress"] = dict(about.progress)
    if about.keep is not None:
        data["keep"] = about.keep
    for key, names in (("closed", about.ends.closed), ("ended", about.ends.runners)):
        if names:
            data[key] = list(names)
    return strict_json.dump({**data, "sha256": _own_hash(data)})


def _own_hash(data: Mapping[str, object]) -> str:
    return hashlib.sha256(strict_json.dump(dict(data)).encode()).hexdigest()


def _file_record(file: TaskFile) -> dict[str, object]:
    data: dict[str, object] = {"size": file.size, "sha256": file.sha256}
    if file.state is not None:
        data["state"] = {name: [dtype, *shape] for name, (dtype, shape) in file.state.items()}
        data["parts"] = {name: [p.rule, p.axis, p.tasks, p.task] for name, p in file.parts.items()}
    return data


def read(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, every byte of it checked."""
    about, files, state = _described(folder)
    if sorted(files) != sorted(task_name(number) for number in range(len(files))):
        raise ValueError(f"it does not consist of {TASK_FILE} and so on")
    if len(files) == 1 and files[TASK_FILE].state is None:
        return Checkpoint(about, _read_task(folder / TASK_FILE, files[TASK_FILE], state))
    whole = Assembly(state, len(files))
    for name, file in files.items():
        if file.state is None:
            raise ValueError(f"it does not say what {name} holds")
        whole.add(_read_task(folder / name, file, file.state), file.parts)
    return Checkpoint(about, whole.finished())


def task_name(number: int) -> str:
    """The file of a task."""
    return f"task-{number}.safetensors"


def about(folder: Path) -> About:
    """What a checkpoint says of itself; its files are not looked at."""
    return _described(folder)[0]


Files = Mapping[str, TaskFile]


def _described(folder: Path) -> tuple[About, Files, Types]:
    record = fields.Record(_manifest(folder), MANIFEST)
    if record.integer("format") != FORMAT:
        raise ValueError(f"its format is {record.integer('format')}, this version of dfc reads {FORMAT}")
    tasks = record.integer("tasks")
    about = About(
        record.integer("step"),
        record.text("program"),
        record.optional("score", _score, None),
        record.optional("progress", _progress, {}),
        record.optional("keep", _keep, None),
        Ends(*(record.list(key, fields.text) if record.has(key) else () for key in ("closed", "ended"))),
    )
    files, state = record.table("files", _file), record.table("state", _type)
    record.done()
    if tasks != len(files):
        raise ValueError(f"{counted(tasks, 'task')} wrote it, but there are {counted(len(files), 'file')}")
    return about, files, state


def _manifest(folder: Path) -> dict[str, object]:
    source = FileSource(folder / MANIFEST)
    try:
        if source.size > MAXIMUM_MANIFEST:
            raise ValueError(f"{MANIFEST} is too long")
        text = source.read(0, source.size).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{MANIFEST} is not UTF-8") from None
    finally:
        source.close()
    data = fields.mapping(strict_json.parse(text), MANIFEST)
    if data.pop("sha256", None) != _own_hash(data):
        raise ValueError(f"{MANIFEST} does not have its hash")
    return data


def _score(value: object, where: str) -> float | None:
    if not isinstance(value, float | int) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{where} is not a number")
    return float(value)


def _keep(value: object, where: str) -> int | None:
    return fields.integer(value, where, 1)


def _progress(value: object, where: str) -> Progress:
    progress: dict[str, int | str] = {}
    for name, each in fields.mapping(value, where).items():
        progress[name] = each if isinstance(each, str) else fields.integer(each, f"{where}.{fields.shown(name)}")
    return progress


def _file(value: object, where: str) -> TaskFile:
    record = fields.Record(value, where)
    size, digest = record.integer("size"), record.text("sha256")
    state = record.optional("state", _types, None)
    parts = record.optional("parts", _parts, {})
    record.done()
    return TaskFile(size, digest, state, parts)


def _types(value: object, where: str) -> Types:
    return {name: _type(each, f"{where}.{fields.shown(name)}") for name, each in fields.mapping(value, where).items()}


def _parts(value: object, where: str) -> Mapping[str, Part]:
    parts: dict[str, Part] = {}
    for name, each in fields.mapping(value, where).items():
        rule, axis, tasks, task = (*fields.items(each, where), None, None, None, None)[:4]
        numbers = [fields.integer(number, where) for number in (axis, tasks, task)]
        parts[name] = Part(fields.text(rule, where), *numbers)
    return parts


def _type(value: object, where: str) -> tuple[str, tuple[int, ...]]:
    parts = fields.items(value, where)
    dtype = fields.text(parts[0] if parts else None, where)
    if dtype not in STORED_AS:
        raise ValueError(f"{where} has the unknown element type {fields.shown(dtype)}")
    return dtype, tuple(fields.integer(each, where) for each in parts[1:])


def _read_task(path: Path, stated: TaskFile, types: Types) -> dict[str, Saved]:
    source = FileSource(path)
    try:
        if source.size != stated.size:
            raise ValueError(f"{path.name} has {counted(source.size, 'byte')} instead of {stated.size}")
        return _tensors(source, stated.sha256, types)
    finally:
        source.close()


def _tensors(source: Source, stated: str, types: Types) -> dict[str, Saved]:
    """All tensors, copied into memory; the hash is taken of the very bytes that are returned."""
    header = tensors.read_header(source)
    digest = hashlib.sha256(source.read(0, header.data_start))
    saved: dict[str, Saved] = {}
    if header.tensors.keys() != types.keys():
        raise ValueError("the tensors are not those the manifest lists")
    for entry in sorted(header.tensors.values(), key=lambda t: (t.offset, t.size)):
        dtype, shape = types[entry.name]
        if (entry.dtype, entry.shape) != (STORED_AS[dtype], stored_shape(dtype, shape)):
            raise ValueError(f"{fields.shown(entry.name)} is not of the type the manifest states")
        raw = np.empty(entry.size, np.uint8)
        source.read_into(entry.offset, raw.data)
        digest.update(raw.data)
        saved[entry.name] = Saved(entry.name, dtype, shape, raw.view(numpy_dtype(dtype)).reshape(shape))
    if digest.hexdigest() != stated:
        raise ValueError(f"{Path(source.name).name} does not have its hash")
    return saved


def problem_of(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        read(folder)
    except (ValueError, OverflowError, FileError) as problem:
        return str(problem)
    return None
