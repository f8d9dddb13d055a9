"""Bundles made by hand, for tests of the run side that need no compiler."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import bundle, manifest_writing, seal, strict_json, tensors
from dfc_runtime.formats.cluster import ROLE
from dfc_runtime.formats.element_types import STORED_AS
from dfc_runtime.formats.manifest import (
    Entry,
    FaultSite,
    HostSite,
    ImageEntry,
    Manifest,
    Parameter,
    Result,
    SizeCheck,
    SourceLocation,
    StateEntry,
)
from dfc_runtime.formats.tensors import NewTensor

LOCATION = SourceLocation("model.dfg", 31, 7, "  let picked = table[id]")


def formula(*tokens: int | str) -> Formula:
    return Formula(tokens)


def shape(text: str) -> tuple[str, tuple[Formula, ...]]:
    """`f32[B, 784]` as an element type and formulas; an axis may be a name, a number, or `2 * N + 1`."""
    name, _, inner = text.partition("[")
    axes = [axis.strip() for axis in inner.rstrip("]").split(",") if axis.strip()]
    return name, tuple(_axis(axis) for axis in axes)


def _axis(text: str) -> Formula:
    if text.isdigit():
        return Formula((int(text),))
    if text.isidentifier():
        return Formula((f"${text}",))
    factor, name, offset = re.fullmatch(r"(\d+) \* (\w+)(?: \+ (\d+))?", text).groups()
    tail = (int(offset), "+") if offset else ()
    return Formula((int(factor), f"${name}", "*", *tail))


def entry(
    name: str,
    feeds: Mapping[str, str],
    results: Mapping[str, str] | str = (),
    *,
    dims: Sequence[str] = (),
    dim_feeds: Sequence[str] = (),
    checks: Iterable[tuple[Formula, str, Formula, str]] = (),
    arena: Formula | int = 0,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    readonly: bool = False,
    is_test: bool = False,
    doc: str = "",
    docs: Mapping[str, str] = {},
) -> Entry:
    """An entry; `results` is one type for a result without a name."""
    named = {"result": results} if isinstance(results, str) else dict(results)
    return Entry(
        name=name,
        doc=doc,
        readonly=readonly,
        is_test=is_test,
        unnamed_result=isinstance(results, str),
        location=LOCATION,
        parameters=tuple(Parameter(n, *shape(t), docs.get(n, "")) for n, t in feeds.items()),
        results=tuple(Result(n, *shape(t)) for n, t in named.items()),
        dims=tuple(dims),
        dim_feeds=tuple(dim_feeds),
        slot_dims=tuple(dims),
        checks=tuple(SizeCheck(a, r, b, why, LOCATION) for a, r, b, why in checks),
        reads=tuple(reads),
        writes=tuple(writes),
        arena=arena if isinstance(arena, Formula) else Formula((arena,)),
        largest_live=Formula((0,)),
    )


def state(name: str, type_: str, *, kind: str = "variable", saved: bool = True) -> StateEntry:
    dtype, axes = shape(type_)
    sizes = tuple(axis.constant for axis in axes)
    return StateEntry(
        name, kind, dtype, sizes, True, "default", saved, "", SourceLocation("model.dfg", 12, 1, "param ...")
    )


@dataclass
class Sketch:
    """A program to be: entries with the names of the fake driver's functions behind them."""

    entries: list[tuple[Entry, str]] = field(default_factory=list)
    state: list[StateEntry] = field(default_factory=list)
    faults: list[FaultSite] = field(default_factory=list)
    sites: list[HostSite] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    constants: bytes = b"constant data"
    source: str = "entry add(x: f32, y: f32) -> f32 { return x + y }\n"
    driver: str = "fake"
    required_bits: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        functions = {f"entry_{number}_0": name for number, (_, name) in enumerate(self.entries)}
        return Manifest(
            version="0.1.0",
            name="model",
            driver=self.driver,
            settings={"WIDTH": 128},
            entries=tuple(built for built, _ in self.entries),
            state=tuple(self.state),
            faults=tuple(self.faults),
            images=(ImageEntry("fake", {name: i for i, name in enumerate(functions)}, self.required_bits),),
            constant_offsets=(0,),
            notes={"functions": functions},
            sites=tuple(self.sites),
        )

    def to_bytes(self) -> bytes:
        contents = [
            NewTensor("code/fake", "U8", (64,), bytes(range(64))),
            NewTensor("constants", "U8", (len(self.constants),), self.constants),
            NewTensor("source", "U8", (len(self.source),), self.source.encode()),
        ]
        for name, array in self.weights.items():
            dtype = next(each.dtype for each in self.state if each.name == name)
            contents.append(NewTensor(f"weights/{name}", STORED_AS[dtype], array.shape, array.tobytes()))
        return b"".join(bundle.write(self.manifest(), contents))


def roles_of(data: bytes) -> dict[str, bytes]:
    """The whole bundles inside a bundle for many ranks, by the names of their tensors."""
    with bundle.opened(data) as opened:
        return {name: opened.read(name) for name in opened.header.tensors if name.startswith(ROLE)}


def with_role(data: bytes, name: str, role: bytes) -> bytes:
    """The bundle with that tensor replaced, and all hashes made right."""
    with bundle.opened(data) as opened:
        contents = [
            NewTensor(each, "U8", (len(role),), role)
            if each == name
            else NewTensor(each, entry.dtype, entry.shape, opened.read(each))
            for each, entry in opened.header.tensors.items()
        ]
        return b"".join(bytes(piece) for piece in bundle.write(opened.manifest, contents))


def with_manifest(data: bytes, change: object) -> bytes:
    """The bundle with its manifest changed by `change(manifest)`, or replaced by a text, and its hash made right. Code
    in it keeps its seal, and so is of another manifest."""
    length = int.from_bytes(data[:8], "little")
    header = strict_json.parse(data[8 : 8 + length].decode())
    metadata = header["__metadata__"]
    if callable(change):
        manifest = strict_json.parse(metadata["manifest"])
        change(manifest)
        metadata["manifest"] = strict_json.dump(manifest)
    else:
        metadata["manifest"] = change
    metadata["manifest_sha256"] = hashlib.sha256(metadata["manifest"].encode()).hexdigest()
    text = strict_json.dump(header).encode()
    text += b" " * (-(8 + len(text)) % tensors.ALIGNMENT)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def sealed(data: bytes) -> bytes:
    """The bundle with its code made to fit its manifest, as a compiler would have written it."""
    length = int.from_bytes(data[:8], "little")
    header = strict_json.parse(data[8 : 8 + length].decode())
    metadata, body = header["__metadata__"], bytearray(data[8 + length :])
    manifest = strict_json.parse(metadata["manifest"])
    for image in manifest["images"]:
        name = f"code/{image['isa']}"
        start, end = header[name]["data_offsets"]
        body[end - seal.SIZE : end] = seal.seal(manifest, image["isa"], manifest["tensors"]["constants"])
        manifest["tensors"][name] = hashlib.sha256(body[start:end]).hexdigest()
    return with_manifest(data[: 8 + length] + bytes(body), strict_json.dump(manifest))


def bound(data: bytes) -> bytes:
    """A bundle for many ranks whose roles were made to fit the manifest around them."""
    with bundle.opened(data) as opened:
        note = {seal.PROGRAM: seal.program(manifest_writing.to_json(opened.manifest))}
    for name, role in roles_of(data).items():
        data = with_role(data, name, sealed(with_manifest(role, lambda manifest: manifest["notes"].update(note))))
    return data
