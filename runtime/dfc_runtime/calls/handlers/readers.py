"""The readers of a program while it runs: the handlers for its requests that are about records.

Assumes sites as the compiler writes them: what a request says of its reader is the same at each of its sites.
Guarantees that what a reader gives is a function of its position and of the files alone; that a damaged record is an
error at its turn, or left out and counted; and that files are opened with the first request. A few records behind the
one that is asked for are read with it, as they will be wanted next. Elements of its stream that were read before can be
read again, in place of those that come next.
"""

from __future__ import annotations

import glob
import os
import threading
import weakref
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import numpy as np

from dfc_runtime.calls.handlers.image_requests import decode_image
from dfc_runtime.calls.handlers.record_contents import decode, parse
from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.errors import EndOfData, FeedError, FileError, LimitError, RecordError, counted
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import DECODE_IMAGE, DECODE_RAW, PARSE_EXAMPLE, RECORD_NEXT, HostSite, Manifest
from dfc_runtime.names import did_you_mean
from dfc_runtime.records.blocks import RecordBlock
from dfc_runtime.records.columnar.library import require_arrow
from dfc_runtime.records.files import LOST, IndexedFiles
from dfc_runtime.records.formats import FORMATS, RECORDS
from dfc_runtime.records.framing import Numbers, OnError
from dfc_runtime.records.images import decoding
from dfc_runtime.records.stream import RecordStream, Shuffled, share
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.decoders import Decoders

Sources = Mapping[str, str | os.PathLike[str]]
"""Patterns by the full names of readers, in place of those that the program says."""
PREFETCHED = 4096
PREFETCHED_BYTES = 1 << 22
"""What is read at once: so many records, unless they have more bytes than this."""
_ORDERS: Mapping[object, Shuffled] = {"files": "files", "records": "records"}


class Readers:
    """The readers of one program. Patterns in the program are relative to `folder`, those in `sources` to the working
    folder; `FeedError` (E0901) if `sources` names a reader that is not there, or a pattern is none."""

    def __init__(self, manifest: Manifest, folder: str, sources: Sources) -> None:
        sites = {str(site.attributes["resource"]): site for site in manifest.sites if site.kind == RECORD_NEXT}
        patterns = _patterns(sources)
        check_names(patterns, sites)
        self._readers = {name: Reader(name, site, folder, patterns.get(name)) for name, site in sites.items()}
        if any(reader.needs_arrow for reader in self._readers.values()):
            require_arrow()
        self._decoders = self._processes(manifest)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By kind."""
        return {
            RECORD_NEXT: lambda request: self._of(request).next(request),
            PARSE_EXAMPLE: lambda request: parse(self._of(request).described, request),
            DECODE_RAW: lambda request: decode(self._of(request).described, request),
            DECODE_IMAGE: lambda request: self._image(self._of(request), request),
        }

    def _image(self, reader: Reader, request: HostRequest) -> None:
        if self._decoders is not None:
            return decode_image(self._decoders.decode, reader.locate, request)
        resize = reader.block.resize
        decode_image(lambda data, height, width: decoding.decode(data, height, width, resize), reader.locate, request)

    @property
    def blocks(self) -> Mapping[str, int]:
        """By reader, the address of the block that native code may take records from."""
        return {name: reader.block.address for name, reader in self._readers.items()}

    def reader(self, name: str) -> Reader:
        """One of them."""
        return self._readers[name]

    def close(self) -> None:
        """Closes the files; a further request opens them again."""
        for reader in self._readers.values():
            reader.close()
        if self._decoders is not None:
            self._decoders.close()

    def _processes(self, manifest: Manifest) -> Decoders | None:
        """Processes that decode the images of a program, where it has some and the environment asks for processes."""
        if not any(site.kind == DECODE_IMAGE for site in manifest.sites):
            return None
        decoding.require_decoder()
        from dfc_runtime.calls.handlers.decoders import Decoders, requested  # few programs decode images

        count = requested()
        decoders = Decoders(count) if count else None
        if decoders is not None:
            for reader in self._readers.values():
                reader.block.use_decoders(decoders.address)
        return decoders

    def _of(self, request: HostRequest) -> Reader:
        return self._readers[str(request.site.attributes["resource"])]


def reader_names(manifest: Manifest) -> set[str]:
    """The readers of a program, by their full names."""
    return {str(site.attributes["resource"]) for site in manifest.sites if site.kind == RECORD_NEXT}


def check_names(sources: Iterable[str], readers: Collection[str]) -> None:
    """`FeedError` if one of the sources is for a reader that is not there."""
    for name in sources:
        if name not in readers:
            text = f"the program has no reader {shown(name)}{did_you_mean(name, readers)}"
            raise FeedError(f"{text}; its readers: {', '.join(sorted(readers)) or 'none'}", code="E0901")


def _patterns(sources: object) -> dict[str, str]:
    """What a caller in Python has given, as texts."""
    helps = 'write data={"files": "data/*.rec"}, with the name of a reader and a pattern of its files'
    if not isinstance(sources, Mapping):
        raise FeedError(f"data = {sources!r} is no mapping\n  {helps}", code="E0901")
    patterns: dict[str, str] = {}
    for name, pattern in cast("Mapping[object, object]", sources).items():
        if not isinstance(name, str) or not isinstance(pattern, (str, bytes, os.PathLike)):
            raise FeedError(f"data = {{{name!r}: {pattern!r}}} names no files\n  {helps}", code="E0901")
        patterns[name] = os.fsdecode(cast("str | bytes | os.PathLike[str]", pattern))
    return patterns


class Reader:
    """One reader: its files, once they are open, and a block of records that are read already."""

    def __init__(self, name: str, site: HostSite, folder: str, pattern: str | None) -> None:
        stated, self.name, self._site = site.attributes, name, site
        self._pattern = pattern if pattern is not None else str(stated["pattern"])
        self._folder = folder if pattern is None else ""
        self._passes, self._seed, self._part, self._parts, self._longest = (
            _whole(stated[key]) for key in ("passes", "seed", "part", "parts", "longest")
        )
        self._shuffled: Shuffled = _ORDERS.get(stated["shuffled"], "")
        self._on_error: OnError = "skip" if stated["on_error"] == "skip" else "fail"
        self._format = FORMATS[str(stated.get("format", RECORDS))]
        self._lock = threading.Lock()
        self._opened: tuple[IndexedFiles, RecordStream] | None = None
        self._again: Numbers | None = None
        self.block = RecordBlock()
        self.left_out: set[int] = set()
        """The elements of the stream that it came to since the program was loaded, and has left out."""

    def next(self, request: HostRequest) -> None:
        """Fills in the record at a position, or the first intact one behind it, and the position behind that."""
        (position,), (data, location, moved) = request.inputs, request.outputs
        element, skipped = (int(each) for each in position)
        with self._lock:
            files, stream = self._files()
            while True:
                number, following = self._find(files, stream, element)
                element = following
                if number != LOST:
                    batch = files.read(np.array([number]))
                    self.block.advance()
                    if len(batch.frames):
                        break
                skipped += 1
                if self._again is None:
                    self.left_out.add(following - self._parts)
        start, size = int(batch.frames.starts[0]), int(batch.frames.lengths[0])
        if size > self._longest:
            raise self._too_long(files, number, size)
        data[:size] = batch.frames.data[start : start + size]
        location[:] = 0, size, number
        moved[:] = following, skipped

    @contextmanager
    def again(self, elements: Numbers) -> Generator[None]:
        """While this lasts, it gives these elements of its stream, in ascending order, and then has no more. The caller
        sets its position to the first one, and puts it back; nobody else reads meanwhile."""
        with self._lock:
            self.block.empty()
            self._again = elements
        try:
            yield
        finally:
            with self._lock:
                self.block.empty()
                self._again = None

    @property
    def records(self) -> int:
        """How many there are in a pass."""
        with self._lock:
            return self._files()[1].count

    def ordinals(self, positions: Numbers) -> Numbers:
        """How many elements of the stream for this reader are in front of these positions."""
        return np.maximum(0, -((self._part - positions) // self._parts))

    def elements(self, ordinals: Numbers) -> Numbers:
        """The elements of the stream in front of which are so many others for this reader."""
        return self._part + ordinals * self._parts

    @property
    def needs_arrow(self) -> bool:
        """Whether the library pyarrow reads its files."""
        return self._format.needs_arrow

    def close(self) -> None:
        """Closes the files, unless a runner that does not end is reading them."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self.block.empty()
            if self._opened is not None:
                self._opened[0].close()
            self._opened = None
        finally:
            self._lock.release()

    def described(self, number: int) -> tuple[str, str, int]:
        """A record in words, its file and its number in that."""
        with self._lock:
            return self._files()[0].described(number)

    def locate(self, number: int) -> tuple[str, str, int, int]:
        """Likewise, in words with where in the file it is, and where it begins."""
        with self._lock:
            files = self._files()[0]
            return files.located(number), *files.described(number)[1:], files.offset(number)

    def _files(self) -> tuple[IndexedFiles, RecordStream]:
        if self._opened is None:
            files = self._format.opened(self._paths(), self._on_error, self._site.attributes)
            if not files.count:
                text = f"the files of the reader {shown(self.name)} hold no {self._format.plural}"
                text += f": {in_one_line(self._pattern)}"
                raise RecordError(text, code="E0916", file=files.indices[0].path)
            weakref.finalize(self, files.close)
            self._opened = files, RecordStream(files.turns, self._shuffled, self._seed)
        return self._opened

    def _paths(self) -> list[str]:
        """The files that the pattern names, in the order of the bytes of their names."""
        pattern = os.path.join(glob.escape(self._folder), self._pattern)
        alone = os.path.join(self._folder, self._pattern)
        if os.path.isfile(alone):  # also of a name with brackets, which would stand for one of the letters in them
            return [alone]
        paths = [path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)]
        if not paths:
            raise self._no_files(is_folder=os.path.isdir(alone or os.curdir))
        return sorted(paths, key=os.fsencode)

    def _no_files(self, *, is_folder: bool) -> FileError:
        where, reader, pattern = (
            in_one_line(os.path.abspath(self._folder)),
            shown(self.name),
            in_one_line(self._pattern),
        )
        if is_folder:
            text = f"{pattern or where} is a folder, and the reader {reader} wants files"
            helps = f"name them: --data '{self.name}={os.path.join(pattern, self._format.pattern)}'"
        else:
            text = f"no file is called {pattern} in {where}: the reader {reader} has none"
            remedy = "write some with dfc data make, or " * (self._format is FORMATS[RECORDS])
            helps = f"{remedy}name others: --data {self.name}=GLOB"
        return FileError(f"{text}\n  {helps}", code="E0909", spans=[self._site.location])

    def _find(self, files: IndexedFiles, stream: RecordStream, position: int) -> tuple[int, int]:
        """The number of the record at a position, or `LOST` for the end of a file, and the position behind it. If the
        block has another one, it is filled with what comes here and behind it: at least one record, but where nothing
        is to be read."""
        known = self.block.next(position)
        if known is not None:
            return known
        end = self._passes * stream.count
        elements, following = self._following(position, end)
        if not len(elements):
            raise self._end(files)
        numbers = files.records_of(stream.elements(elements))
        lost = np.flatnonzero(numbers == LOST)
        if len(lost):
            if not lost[0]:
                return LOST, int(following[0])
            numbers, elements = numbers[: lost[0]], elements[: lost[0]]
        lengths = files.sizes(numbers)
        count = max(1, int(np.searchsorted(np.cumsum(lengths), PREFETCHED_BYTES, side="right")))
        long = np.flatnonzero((lengths[:count] > self._longest) & (not files.has_estimates))
        if len(long):
            if not long[0]:
                raise self._too_long(files, int(numbers[0]), int(lengths[0]))
            count = int(long[0])
        following = following[:count]
        self._fill(files, numbers[:count], np.concatenate([np.array([position]), following[:-1]]), following)
        return int(numbers[0]), int(following[0])

    def _following(self, position: int, end: int) -> tuple[Numbers, Numbers]:
        """Some elements from a position on, and the position behind each."""
        if self._again is not None:
            begin = int(np.searchsorted(self._again, position))
            elements = self._again[begin : begin + PREFETCHED]
            elements = elements[elements < end]
        else:
            first = position + (self._part - position) % self._parts
            elements = share(self._part, self._parts, first, min(end, first + PREFETCHED * self._parts))
        return elements, elements + self._parts

    def _fill(self, files: IndexedFiles, numbers: Numbers, positions: Numbers, following: Numbers) -> None:
        """Prefetches some of these records, the first one at least."""
        columns = {"position": positions, "following": following, "number": numbers}
        try:
            some = files.prefetch(numbers)
        except (FileError, RecordError):  # a file has changed, which is said at the turn of a record
            self.block.fill(None, **columns, length=files.sizes(numbers))
            return
        columns = {name: column[: len(some.lengths)] for name, column in columns.items()}
        addresses = np.where(some.lengths > self._longest, 0, some.addresses)  # code copies what it finds there
        columns |= {"length": some.lengths, "address": addresses}
        self.block.fill(some.data, **columns, descriptor=some.descriptors, offset=some.offsets)

    def _too_long(self, files: IndexedFiles, number: int, size: int) -> LimitError:
        where, size, room = files.located(number), size - files.fixed, self._longest - files.fixed
        text = f"{where}, has {counted(size, 'byte')}, and {shown(self.name)} has room for {room}"
        helps = f"declare it with {self._format.function}(.., longest = {size})"
        return LimitError(f"{text}\n  {helps}", code="E0905", spans=[self._site.location])

    def _end(self, files: IndexedFiles) -> EndOfData:
        passes = "1 pass" if self._passes == 1 else f"{self._passes} passes"
        what = self._format.plural.removesuffix("s" * (files.count == 1))
        text = f"the reader {shown(self.name)} has nothing more: {passes} of {files.count} {what}"
        return EndOfData(text, code="E0918", spans=[self._site.location])


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
