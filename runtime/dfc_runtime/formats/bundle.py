"""Bundles: one safetensors file per compiled program.

Tensors: `code/<isa>` (u8), `constants` (u8), `source` (u8), `source/<path>` (u8, imported files), `weights/<full name>`
(captured state, optional), and for a program on many ranks `role/<name>` (u8, a whole bundle) instead of code, and
perhaps `part/<number>` (u8, whole bundles of parts of entries) and `deployment` (u8, a text).
Metadata: `format` (`dfc.bundle`), `manifest` (JSON), `manifest_sha256`. Code ends with the seal of its manifest.

Assumes nothing of the bytes. Guarantees the order of checks: lengths, then hashes, then schema, then seals. What comes
out of `read` is whole; anything else is a `BundleError` of one line with at most 200 characters.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import BundleError
from dfc_runtime.formats import fields, manifest_reading, manifest_writing, seal, strict_json, tensors
from dfc_runtime.formats.cluster import DEPLOYMENT, PART, ROLE
from dfc_runtime.formats.element_types import STORED_AS, stored_shape
from dfc_runtime.formats.manifest import FORMAT, ImageEntry, Manifest
from dfc_runtime.formats.source import CHUNK, FileSource, MemorySource, Source
from dfc_runtime.formats.tensors import Header, NewTensor, TensorEntry
from dfc_runtime.kinds import require_kind
from dfc_runtime.observation import observe

KIND = "dfc.bundle"
CONSTANTS, SOURCE, WEIGHTS = "constants", "source", "weights/"
LONGEST_MESSAGE = 200
PROGRAM = ".dfg"
_OF_A_PROGRAM = "it is a program, of which `dfc compile` makes one"


def source_tensor(path: str) -> str:
    """The tensor that holds the text of an imported file, or of the program for the empty path."""
    return f"{SOURCE}/{path}" if path else SOURCE


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle whose hashes and schema are right. Tensors are read again, and checked again, when they are used."""

    source: Source
    header: Header
    manifest: Manifest

    def tensor(self, name: str) -> TensorEntry:
        return self.header.tensors[name]

    def read(self, name: str) -> bytes:
        """The bytes of a tensor, of which these very bytes were hashed."""
        entry = self.tensor(name)
        data = self.source.read(entry.offset, entry.size)
        self._compare(name, hashlib.sha256(data).hexdigest())
        return data

    def code(self, image: ImageEntry) -> bytes:
        """The machine code of an image, without its seal."""
        return self.read(image.tensor)[: -seal.SIZE]

    def read_into(self, name: str, target: memoryview) -> None:
        """Likewise, into memory of the caller."""
        self.source.read_into(self.tensor(name).offset, target)
        self._compare(name, hashlib.sha256(target).hexdigest())

    def _compare(self, name: str, digest: str) -> None:
        if digest != self.manifest.tensors[name]:
            raise ValueError(f"{fields.shown(name)} has changed while it was read")


@contextmanager
def opened(source: str | os.PathLike[str] | bytes | Source) -> Generator[OpenBundle]:
    """A bundle to read from: a path or the bytes themselves. `ValueError` inside becomes `BundleError`."""
    file: Source
    if isinstance(source, bytes | bytearray | memoryview):
        file = MemorySource(source)
    elif isinstance(source, (str, os.PathLike)):
        file = FileSource(source)
    else:
        require_kind(source, Source, "a bundle is a path, or bytes")
        file = source
    try:
        yield _open(file)
    except (ValueError, OverflowError) as problem:
        is_program = file.name.endswith(PROGRAM)
        raise damaged(file.name, _OF_A_PROGRAM if is_program else str(problem)) from None
    finally:
        file.close()


def damaged(name: str, reason: str) -> BundleError:
    """The error for a bundle that cannot be used, on one line."""
    start = f"{fields.shown(name, 80)} is not a usable bundle: "
    return BundleError(start + fields.shown(reason, LONGEST_MESSAGE - 8 - len(start)), code="E0906")


def _open(file: Source) -> OpenBundle:
    header = tensors.read_header(file)
    if header.metadata.get("format") != KIND:
        raise ValueError("it is a safetensors file without the mark of a bundle")
    observe("lengths")
    text = header.metadata.get("manifest", "")
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != header.metadata.get("manifest_sha256"):
        raise ValueError("the manifest does not have its hash")
    data = strict_json.parse(text)
    _check_version(data)
    _check_hashes(file, header, fields.mapping(fields.mapping(data, "manifest").get("tensors"), "manifest.tensors"))
    manifest = manifest_reading.from_json(data)
    _check_tensors(header, manifest)
    observe("schema")
    _check_seals(file, header, manifest, fields.mapping(data, "manifest"))
    return OpenBundle(file, header, manifest)


def _check_version(data: object) -> None:
    number = fields.integer(fields.mapping(data, "manifest").get("format"), "manifest.format")
    if number != FORMAT:
        raise ValueError(f"its format is {number}, this version of dfc reads {FORMAT}: compile the program again")


def _check_hashes(file: Source, header: Header, hashes: Mapping[str, object]) -> None:
    if header.tensors.keys() != hashes.keys():
        raise ValueError("the tensors are not those the manifest lists")
    for name, entry in header.tensors.items():
        if _sha256(file, entry) != hashes[name]:
            raise ValueError(f"{fields.shown(name)} does not have its hash")
        observe(f"hash {name}")


def _sha256(file: Source, entry: TensorEntry) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(CHUNK, entry.size)))
    for start in range(0, entry.size, CHUNK):
        part = buffer[: min(CHUNK, entry.size - start)]
        file.read_into(entry.offset + start, part)
        digest.update(part)
    return digest.hexdigest()


def _check_tensors(header: Header, manifest: Manifest) -> None:
    state = {WEIGHTS + s.name: (STORED_AS[s.dtype], stored_shape(s.dtype, s.shape)) for s in manifest.state}
    code = {image.tensor for image in manifest.images} | _of_ranks(manifest)
    constants = {CONSTANTS} if manifest.cluster is None else set[str]()
    if not {SOURCE, *constants, *code} <= header.tensors.keys():
        raise ValueError("code, constants or source are missing")
    for name, tensor in header.tensors.items():
        layout = (tensor.dtype, tensor.shape)
        is_text = name.startswith(f"{SOURCE}/")
        if name not in (CONSTANTS, SOURCE, *code) and name not in state and not is_text:
            raise ValueError(f"{fields.shown(name)} is no part of a bundle")
        if layout != state.get(name, ("U8", (tensor.size,))):
            raise ValueError(f"{fields.shown(name)} is not of the type the manifest states")
    for image in manifest.images:
        if not all(offset < header.tensors[image.tensor].size - seal.SIZE for offset in image.symbols.values()):
            raise ValueError(f"a symbol of {fields.shown(image.isa)} lies outside the code")
    size = header.tensors[CONSTANTS].size if constants else 0
    if not all(offset <= size for offset in manifest.constant_offsets):
        raise ValueError("a constant lies outside the constants")


def _check_seals(file: Source, header: Header, manifest: Manifest, data: Mapping[str, object]) -> None:
    """Each image was compiled with these tables, and no others."""
    for image in manifest.images:
        entry = header.tensors[image.tensor]
        sealed = file.read(entry.offset + entry.size - seal.SIZE, seal.SIZE) if entry.size >= seal.SIZE else b""
        if sealed != seal.seal(data, image.isa, manifest.tensors.get(CONSTANTS, "")):
            raise ValueError(f"its manifest is not the one that {fields.shown(image.tensor)} was compiled with")


def _of_ranks(manifest: Manifest) -> set[str]:
    """What a bundle for many ranks has: inner bundles, and the text of the deployment file."""
    cluster = manifest.cluster
    if cluster is None:
        return set()
    inner = {ROLE + role.name for role in cluster.roles} | {f"{PART}{number}" for number in range(len(cluster.parts))}
    return inner | ({DEPLOYMENT} if cluster.deployment else set())


def write(manifest: Manifest, contents: Iterable[NewTensor]) -> Iterator[bytes | memoryview]:
    """The file, piece by piece; the hashes of the manifest are filled in here, and code is sealed."""
    contents = _sealed(manifest, list(contents))
    hashes = {tensor.name: hashlib.sha256(tensor.data).hexdigest() for tensor in contents}
    text = strict_json.dump(manifest_writing.to_json(replace(manifest, tensors=hashes)))
    metadata = {
        "format": KIND,
        "manifest": text,
        "manifest_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    return tensors.write(contents, metadata)


def _sealed(manifest: Manifest, contents: list[NewTensor]) -> list[NewTensor]:
    """The tensors of a file, with a seal behind each image."""
    if not manifest.images:
        return contents
    data = manifest_writing.to_json(manifest)
    constants = next(hashlib.sha256(each.data).hexdigest() for each in contents if each.name == CONSTANTS)
    seals = {image.tensor: seal.seal(data, image.isa, constants) for image in manifest.images}
    return [
        replace(each, shape=(len(each.data) + seal.SIZE,), data=bytes(each.data) + seals[each.name])
        if each.name in seals
        else each
        for each in contents
    ]
