"""What is inside the records of a reader: features of examples, packed fields, bytes as numbers.

Assumes requests as the compiler writes them, with where a string lies in its record and the number of that. Guarantees
that what a record has in place of what is wanted is a `RecordError` (E0915) with its file and number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import RecordError, counted
from dfc_runtime.formats.fields import shown
from dfc_runtime.names import did_you_mean
from dfc_runtime.records import example
from dfc_runtime.records.fields import PACKED, STRING, STRING_BYTES
from dfc_runtime.records.wire import WireError

Describe = Callable[[int], tuple[str, str, int]]
"""A record of the reader in words, its file and its number in that."""


def parse(describe: Describe, request: HostRequest) -> None:
    """Fills in the features that are wanted."""
    data, location = request.inputs
    begin, size, number = (int(each) for each in location)
    if request.site.attributes.get("format") == PACKED:
        return _unpack(describe, request)
    names, kinds = request.site.attributes["names"], request.site.attributes["kinds"]
    assert isinstance(names, tuple) and isinstance(kinds, tuple)
    record = data[begin : begin + size].tobytes()
    try:
        layouts = example.layouts(record, names)
    except WireError as problem:
        where, file, at = describe(number)
        raise example.no_example(problem, where, file, at) from None
    for name, kind, output in zip(names, kinds, request.outputs, strict=True):
        layout = layouts.get(name)
        expected = "bytes" if kind == "string" else "float" if output.dtype == np.float32 else "int64"
        if layout is None or layout.kind != expected:
            raise _other(describe, number, name, expected, record)
        if kind == "string":
            if len(layout.spans) != 1:
                raise _uneven(describe, number, f"{len(layout.spans)} strings", name, "one")
            span = layout.spans[0]
            output[:] = begin + span.begin, span.end - span.begin, number
            continue
        values = np.asarray(example.values_of(record, layout))
        if values.size != output.size:
            raise _uneven(describe, number, counted(values.size, "number"), name, str(output.size))
        output[...] = values.reshape(output.shape)


def _unpack(describe: Describe, request: HostRequest) -> None:
    """Copies the fields of a packed record."""
    data, location = request.inputs
    begin, size, number = (int(each) for each in location)
    kinds = request.site.attributes["kinds"]
    assert isinstance(kinds, tuple)
    at = begin
    for kind, output in zip(kinds, request.outputs, strict=True):
        width = STRING_BYTES if kind == STRING else output.nbytes
        part = data[at : at + width]
        at += width
        if kind != STRING:
            output.reshape(-1).view(np.uint8)[:] = part
            continue
        first, length = (int(each) for each in np.frombuffer(part.tobytes(), "<i8"))
        if first < 0 or length < 0 or first + length > size:
            raise RecordError(f"{describe(number)[0]} is not packed as it should be", code="E0915")
        output[:] = begin + first, length, number


_WORDS = {"bytes": "strings", "float": "floats", "int64": "whole numbers", "": "nothing"}


def _other(describe: Describe, number: int, name: str, expected: str, data: bytes) -> RecordError:
    where, file, record = describe(number)
    try:
        layouts = example.layouts(data)
    except WireError as problem:  # in what was not asked for
        return example.no_example(problem, where, file, record)
    layout = layouts.get(name)
    if layout is None:
        there = ", ".join(map(shown, sorted(layouts))) or "none"
        text = f"{where} has no feature {shown(name)}{did_you_mean(name, layouts)}; its features: {there}"
    else:
        text = f"the feature {shown(name)} of {where} holds {_WORDS[layout.kind]}, and {_WORDS[expected]} are wanted"
    return RecordError(text, code="E0915", file=file, record=record)


def _uneven(describe: Describe, number: int, there: str, name: str, expected: str) -> RecordError:
    where, file, record = describe(number)
    verb = "is" if expected in ("1", "one") else "are"
    text = f"the feature {shown(name)} of {where} has {there}, and {expected} {verb} wanted"
    return RecordError(text, code="E0915", file=file, record=record)


def decode(describe: Describe, request: HostRequest) -> None:
    """Copies the bytes of a string to where they are numbers."""
    (data, location), (x,) = request.inputs, request.outputs
    begin, size, number = (int(each) for each in location)
    if x.nbytes != size:
        where, file, record = describe(number)
        text = f"a string of {counted(size, 'byte')} in {where} is no whole number of {x.dtype.itemsize} bytes each"
        raise RecordError(text, code="E0915", file=file, record=record)
    x.reshape(-1).view(np.uint8)[:] = data[begin : begin + size]
