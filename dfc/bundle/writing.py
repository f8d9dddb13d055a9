"""A lowered program as a bundle: the last step of the compiler, and the only writer of the format.

Assumes a program whose entries and signatures belong together, and what a target made of it. Guarantees equal bytes for
equal input, whatever the machine, folder or hash seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from dfc.bundle.formulas import Names, entry_names, formula
from dfc.bundle.target import CodeImage, Lowered
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.ir.dims import ZERO, Dim, Symbol
from dfc.ir.dtypes import ALL, DType, from_numpy
from dfc.ir.graph import DimCheck, Resource
from dfc.ir.measured import upper_elements
from dfc.ir.queues import layout
from dfc.kernels.program import (
    EntryProgram,
    EntrySignature,
    HostCall,
    Locked,
    Program,
    SiteType,
    is_own_lock,
    walk,
)
from dfc.version import __version__
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.checkpoints.files import replace_file
from dfc_runtime.errors import FeedError, FileError
from dfc_runtime.formats import bundle as bundle_format
from dfc_runtime.formats.element_types import STORED_AS, stored_shape
from dfc_runtime.formats.manifest import (
    HANDED,
    QUEUE,
    TEXT,
    Entry,
    FaultSite,
    HostSite,
    ImageEntry,
    Manifest,
    Parameter,
    Result,
    SiteOperand,
    SizeCheck,
    SourceLocation,
    StateEntry,
)
from dfc_runtime.formats.tensors import NewTensor

Setting = int | float | bool | str


@dataclass(frozen=True, slots=True, repr=False)
class Bundle:
    """A compiled program, in memory. `diagnostics` are the warnings of its compilation."""

    manifest: Manifest
    contents: tuple[NewTensor, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entries, tests and runners left out."""
        return tuple(entry.name for entry in self.manifest.entries if entry.is_called)

    def with_state(self, state: Mapping[str, NDArray[np.generic] | np.generic]) -> Bundle:
        """The same program with these values for all its state but queues (such as `model.state`): loading takes them,
        and does not run `init`."""
        entries = [entry for entry in self.manifest.state if entry.kind != QUEUE]
        missing = [entry.name for entry in entries if entry.name not in state]
        if missing:
            raise FeedError(f"no value is given for the state {missing[0]}", code="E0901")
        captured = [_captured(entry, np.asarray(state[entry.name])) for entry in entries]
        kept = [each for each in self.contents if not each.name.startswith(bundle_format.WEIGHTS)]
        return replace(self, contents=(*kept, *captured))

    def __repr__(self) -> str:
        return f"<bundle {self.manifest.name!r}: {', '.join(self.entries) or 'no entries'}>"

    def to_bytes(self) -> bytes:
        """The file."""
        return b"".join(bundle_format.write(self.manifest, self.contents))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the file, or leaves what stood there; a bundle that is in use stays as it was for its user."""
        target = Path(path)
        if target.exists() and not target.is_file():
            what = "it is a folder" if target.is_dir() else "it is not a regular file"
            raise FileError(f"cannot write {target}: {what}", code="E0909")
        try:
            replace_file(target, bundle_format.write(self.manifest, self.contents))
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise FileError(f"cannot write {target}: {reason}", code="E0909") from None
        return target


def write(
    program: Program,
    lowered: Lowered,
    source: str,
    settings: Mapping[str, Setting],
    diagnostics: Iterable[Diagnostic] = (),
    modules: Mapping[str, str] | None = None,
    notes: Mapping[str, object] | None = None,
) -> Bundle:
    """The bundle of a program: machine code, plans, signatures, source, and texts of imported files; `notes` are
    added to those of the target."""
    signatures = {signature.name: signature for signature in program.signatures}
    manifest = Manifest(
        version=__version__,
        name=program.name,
        driver=lowered.driver,
        settings=dict(settings),
        entries=tuple(_entry(entry, signatures[entry.name]) for entry in program.entries),
        state=tuple(state_entry(resource) for resource in program.resources.values()),
        faults=tuple(FaultSite(fault.kind, fault.message, _location(fault.span)) for fault in program.faults),
        images=tuple(ImageEntry(i.isa, dict(i.symbols), i.required_bits) for i in lowered.images),
        constant_offsets=lowered.constant_offsets,
        notes={**lowered.notes, **(notes or {})},
        sites=_sites(program),
        compilers=dict(lowered.compilers),
    )
    contents = [
        *(_code(image) for image in lowered.images),
        NewTensor(bundle_format.CONSTANTS, "U8", (len(lowered.constants),), lowered.constants),
        *text_tensors(source, modules),
    ]
    return Bundle(manifest, tuple(contents), tuple(diagnostics))


def _sites(program: Program) -> tuple[HostSite, ...]:
    """The sites of host calls, with the entries that they are in."""
    entries = {
        step.site: entry.name for entry in program.entries for step in walk(entry.steps) if isinstance(step, HostCall)
    }
    handed = {number: names for entry in program.entries for number, names in _handed_over(entry).items()}
    return tuple(
        HostSite(
            kind=site.kind,
            entry=entries[number],
            attributes=dict(site.attributes) | ({HANDED: handed[number]} if number in handed else {}),
            inputs=tuple(map(_operand, site.inputs)),
            outputs=tuple(map(_operand, site.outputs)),
            names=site.names,
            location=_location(site.span),
        )
        for number, site in enumerate(program.sites)
    )


def _handed_over(entry: EntryProgram) -> dict[int, tuple[str, ...]]:
    """By the number of a host call the variables it is given, of an entry that does nothing but hand over variables."""
    handed: dict[int, tuple[str, ...]] = {}
    match entry.steps:
        case (Locked(containers=containers, body=steps),) if all(map(is_own_lock, containers)):
            pass  # the run side sees to it that nobody else is at the state meanwhile
        case steps:
            pass
    for step in steps:
        if not isinstance(step, HostCall) or step.outputs or not step.inputs:
            return {}
        names = tuple(entry.buffers[number].resource for number in step.inputs)
        if "" in names:
            return {}
        handed[step.site] = names
    return handed


def _operand(type_: SiteType) -> SiteOperand:
    dtype, shape = type_
    return SiteOperand(dtype.name, tuple(str(d) if d.constant is None else d.constant for d in shape))


def _captured(entry: StateEntry, array: NDArray[np.generic]) -> NewTensor:
    if array.shape != entry.shape or from_numpy(array.dtype) != ALL[entry.dtype]:
        raise FeedError(f"{entry.name} is {entry}, not {array.dtype.name} of shape {array.shape}", code="E0901")
    name = bundle_format.WEIGHTS + entry.name
    return NewTensor(name, STORED_AS[entry.dtype], stored_shape(entry.dtype, entry.shape), array.tobytes())


def _code(image: CodeImage) -> NewTensor:
    return NewTensor(f"code/{image.isa}", "U8", (len(image.code),), image.code)


def text_tensor(name: str, text: str) -> NewTensor:
    """A text as a tensor of a bundle."""
    data = text.encode("utf-8", "surrogatepass")
    return NewTensor(name, "U8", (len(data),), data)


def text_tensors(source: str, modules: Mapping[str, str] | None = None) -> list[NewTensor]:
    """The text of a program, and of the files it imports by path."""
    imported = [text_tensor(bundle_format.source_tensor(path), text) for path, text in sorted((modules or {}).items())]
    return [text_tensor(bundle_format.SOURCE, source), *imported]


def signature_entry(signature: EntrySignature, bounds: Mapping[Symbol, Dim]) -> Entry:
    """An entry that others carry out: what a caller needs to know of it, and no code. `bounds` are those of the sizes
    it finds out."""
    measured = tuple(bounds.items())
    return _entry(EntryProgram(signature.name, [], (), (), (), (), ZERO, ZERO, measured=measured), signature)


def _location(span: Span) -> SourceLocation:
    """A source location without the folder the program lies in, so that equal programs give equal bundles."""
    name = span.name if span.name.startswith("std/") else PurePath(span.name).name
    return SourceLocation(name, span.line, span.column, span.file.line_text(span.line))


def _entry(entry: EntryProgram, signature: EntrySignature) -> Entry:
    names = entry_names(entry, signature)
    most = dict(entry.measured)
    documented = (*signature.parameter_docs, *[""] * len(signature.parameter_names))
    parameters = zip(signature.parameter_names, signature.parameter_types, documented, strict=False)
    results = zip(signature.result_names, signature.result_types, strict=True)
    return Entry(
        name=signature.name,
        doc=signature.doc,
        readonly=signature.readonly,
        concurrent=signature.concurrent,
        is_test=signature.is_test,
        unnamed_result=signature.unnamed_result,
        location=_location(signature.span),
        parameters=tuple(_parameter(name, type_, doc, names) for name, type_, doc in parameters),
        results=tuple(
            replace(_result(name, dtype, shape, names, most), over=_over(signature, name, names))
            for name, (dtype, shape) in results
        ),
        dims=tuple(names[symbol] for symbol in signature.dims),
        dim_feeds=tuple(names[symbol] for symbol in signature.dim_feeds),
        slot_dims=tuple(names[symbol] for symbol in entry.dims),
        checks=tuple(_check(check, names) for check in signature.checks),
        reads=signature.resources_read,
        writes=signature.resources_written,
        arena=formula(entry.arena, names),
        largest_live=formula(entry.largest_live, names),
        peak_names=entry.peak_names,
        measured=tuple(names[symbol] for symbol, _ in entry.measured),
        copies=signature.copies,
    )


def _over(signature: EntrySignature, result: str, names: Names) -> tuple[tuple[str, str], ...]:
    return tuple((names[symbol], how) for symbol, how in signature.results_over.get(result, ()))


def _result(name: str, dtype: DType, shape: tuple[Dim, ...], names: Names, most: Mapping[Symbol, Dim]) -> Result:
    """A result whose size the entry finds out says how many elements it can have."""
    is_open = any(not most.keys().isdisjoint(size.symbols()) for size in shape)
    room = formula(upper_elements(shape, most), names) if is_open else None
    return Result(name, dtype.name, _shape(shape, names), room)


def _shape(shape: tuple[Dim, ...], names: Names) -> tuple[Formula, ...]:
    return tuple(formula(each, names) for each in shape)


def _parameter(name: str, type_: tuple[DType, tuple[Dim, ...]] | None, doc: str, names: Names) -> Parameter:
    if type_ is None:
        return Parameter(name, TEXT, (), doc)
    return Parameter(name, type_[0].name, _shape(type_[1], names), doc)


def _check(check: DimCheck, names: Names) -> SizeCheck:
    left, right = formula(check.left, names), formula(check.right, names)
    return SizeCheck(left, check.relation, right, check.reason, _location(check.span))


def state_entry(resource: Resource) -> StateEntry:
    """What a manifest says of a piece of state."""
    sizes = [each.constant for each in resource.type.shape]
    shape = tuple(size for size in sizes if size is not None)
    if len(shape) != len(sizes):
        raise CompileError([error("E1001", f"`{resource.name}` has a size that is not a constant", resource.span)])
    return StateEntry(
        name=resource.name,
        kind=resource.kind.value,
        dtype=resource.type.machine.name,
        shape=shape,
        trained=resource.trained,
        container=resource.container,
        saved=resource.saved,
        doc=resource.doc,
        location=_location(resource.span),
        queue=layout(resource.queue) if resource.queue is not None and not resource.queue.is_mutex else None,
    )
