"""The manifest of a bundle: everything about a compiled program but its bytes.

Assumes nothing of the JSON it is read from. Guarantees that a manifest that was read is whole: every number that
points somewhere points inside, every name that is used is declared, every formula uses the dims of its entry only.
`to_json` and `from_json` are each other's inverse; equal manifests have equal JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import fields
from dfc_runtime.formats.cluster import Cluster

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import QueueLayout  # most programs have no queues

FORMAT = 2
"""The number of the format; since 2 code ends with the seal of its manifest."""
OMITTED_STATE = "omitted_state"
"""In the notes of a bundle with some entries of its program alone: the state that none of them needs."""
MIXED = "mixed"
"""The driver of a program on several devices: its name, that of its image, and of its plan in the notes of a bundle."""
TEXT = "text"
"""The element type of a parameter that is a text: it reaches host steps only."""
MOST_COPIES = 4096
"""Of a runner: each is a thread."""
FIRST = "first"
"""The attribute of takes, and of turns, in front of which the iteration of a runner has done nothing (1), or nothing
but draw for the take (2): while the runner is held it is left there, and begun again."""
HANDED = "variables"
"""The attribute of host calls in an entry that does nothing but hand variables to the run side: their names, one for
each input. The run side need not enter native code for them."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the source of a program, with the line itself for messages."""

    name: str
    line: int
    column: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A feed. `dtype` is an element type, or `text`."""

    name: str
    dtype: str
    shape: tuple[Formula, ...]
    doc: str = ""

    @property
    def is_text(self) -> bool:
        return self.dtype == TEXT

    def __str__(self) -> str:
        return "string" if self.is_text else described(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Result:
    """A fetch. `most` is there if the shape mentions sizes that the entry finds out: the most elements it can have.
    `over` says of a single number for which sizes it is a mean, sum, max or min over so many examples: pairs of a dim
    and one of `OVER`."""

    name: str
    dtype: str
    shape: tuple[Formula, ...]
    most: Formula | None = None
    over: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return described(self.dtype, self.shape)


OVER = ("mean", "sum", "max", "min")


def described(dtype: str, shape: tuple[object, ...]) -> str:
    """A type as programs write it."""
    return f"{dtype}[{', '.join(map(str, shape))}]" if shape else dtype


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """What must hold between sizes when an entry is called: `left relation right`."""

    left: Formula
    relation: str
    right: Formula
    reason: str
    location: SourceLocation


RELATIONS = ("==", "!=", ">=", ">")


@dataclass(frozen=True, slots=True)
class Entry:
    """A signature and the plan behind it. `slot_dims` are the dims in the order native code gets them; `measured` are
    the sizes it finds out itself, in the order in which it leaves them behind the arena's address. With `copies` it is
    a runner: nobody calls it, and so many threads repeat it."""

    name: str
    doc: str
    readonly: bool
    is_test: bool
    unnamed_result: bool
    location: SourceLocation
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    dims: tuple[str, ...]
    dim_feeds: tuple[str, ...]
    slot_dims: tuple[str, ...]
    checks: tuple[SizeCheck, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    arena: Formula
    largest_live: Formula
    peak_names: tuple[str, ...] = ()
    concurrent: bool = False
    measured: tuple[str, ...] = ()
    copies: int = 0

    @property
    def is_runner(self) -> bool:
        return self.copies > 0

    @property
    def is_called(self) -> bool:
        """Whether callers of the program see it: no test, and no runner."""
        return not self.is_test and not self.is_runner

    @property
    def slot_count(self) -> int:
        return len(self.parameters) + len(self.results) + len(self.slot_dims) + 1 + len(self.measured)

    def __str__(self) -> str:
        feeds = [f"{p.name}: {p}" for p in self.parameters] + [f"{name}: i64" for name in self.dim_feeds]
        if self.unnamed_result:
            fetches = str(self.results[0])
        else:
            fetches = ", ".join(f"{r.name}: {r}" for r in self.results)
            fetches = f"({fetches})" if fetches else ""
        generic = f"[{', '.join(self.dims)}]" if self.dims else ""
        if self.is_runner:
            return f"runner {self.name}" + (f" with copies = {self.copies}" if self.copies > 1 else "")
        head = "readonly entry" if self.readonly else "entry"
        arrow = f" -> {fetches}" if fetches else ""
        tail = " with concurrent = true" if self.concurrent else ""
        return f"{head} {self.name}{generic}({', '.join(feeds)}){arrow}{tail}"


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A variable, random stream or queue that outlives calls. A queue that is no mutex says how its elements lie."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    trained: bool
    container: str
    saved: bool
    doc: str
    location: SourceLocation
    queue: QueueLayout | None = None

    def __str__(self) -> str:
        return described(self.dtype, self.shape)


DEFAULT_CONTAINER = "default"
"""The container of state that belongs to one loaded program alone."""
BACKGROUND = "@background"
"""The name of the lock of such state that runners share with entries."""
QUEUE = "queue"
STATE_KINDS = ("variable", "rng", QUEUE)


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A place where the program can fail."""

    kind: str
    message: str
    location: SourceLocation


SAVE, RESTORE, SEND = "checkpoint_save", "checkpoint_restore", "send"
QUEUE_PUT, QUEUE_TAKE, QUEUE_SIZE, QUEUE_CLOSE = "queue_put", "queue_take", "queue_size", "queue_close"
QUEUE_TAKE_UP_TO = "queue_take_up_to"
MUTEX_ACQUIRE, MUTEX_RELEASE = "mutex_acquire", "mutex_release"
TURN_TAKE, TURN_PASS = "turn_take", "turn_pass"
RECORD_NEXT, PARSE_EXAMPLE, DECODE_RAW = "record_next", "parse_example", "decode_raw"
DECODE_IMAGE = "decode_image"
RECORD_KINDS = frozenset({RECORD_NEXT, PARSE_EXAMPLE, DECODE_RAW, DECODE_IMAGE})
QUEUE_KINDS = frozenset({QUEUE_PUT, QUEUE_TAKE, QUEUE_TAKE_UP_TO, QUEUE_SIZE, QUEUE_CLOSE})
MUTEX_KINDS = frozenset({MUTEX_ACQUIRE, MUTEX_RELEASE})
NATIVE_KINDS = QUEUE_KINDS | MUTEX_KINDS | {TURN_TAKE, TURN_PASS}
"""Kinds of requests that have no handler: native code answers them itself, where a driver has queues and runners."""
SiteValue = bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteOperand:
    """What a host call gives or gets: an axis is a number, or the formula of its size as people read it."""

    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return described(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class HostSite:
    """A site in the native code of an entry that calls the run side: the handler for `kind`, which gets the
    attributes. `names` are the values of the program that it stands for. Those that save and restore get the
    number of the parameter that is the path, and the state."""

    kind: str
    entry: str
    attributes: Mapping[str, SiteValue]
    inputs: tuple[SiteOperand, ...]
    outputs: tuple[SiteOperand, ...]
    names: tuple[str, ...]
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """A code image; its bytes are the tensor `code/<isa>`, up to the seal."""

    isa: str
    symbols: Mapping[str, int]
    required_bits: tuple[str, ...]

    @property
    def tensor(self) -> str:
        return f"code/{self.isa}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A compiled program. `tensors` are the hashes of the file's tensors. With a `cluster`, entries are signatures
    only, and there is no code but that of the roles. `version` is that of dfc; `compilers` are the tools behind it that
    made the code, with their versions, and bundles of earlier versions name none."""

    version: str
    name: str
    driver: str
    settings: Mapping[str, int | float | bool | str]
    entries: tuple[Entry, ...]
    state: tuple[StateEntry, ...]
    faults: tuple[FaultSite, ...]
    images: tuple[ImageEntry, ...]
    constant_offsets: tuple[int, ...]
    notes: Mapping[str, object] = field(default_factory=dict[str, object])
    tensors: Mapping[str, str] = field(default_factory=dict[str, str])
    cluster: Cluster | None = None
    sites: tuple[HostSite, ...] = ()
    compilers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def omitted_state(self) -> frozenset[str]:
        """State of the program that no entry of this bundle needs, which was compiled with some entries alone."""
        names = fields.items(self.notes.get(OMITTED_STATE, []), OMITTED_STATE)
        return frozenset(fields.text(name, OMITTED_STATE) for name in names)

    def uses_queues_only(self, entry: Entry) -> bool:
        """Whether an entry uses queues, and no other state: nothing needs to keep its calls apart from others."""
        used, queues = {*entry.reads, *entry.writes}, {each.name for each in self.state if each.kind == QUEUE}
        return bool(used) and used <= queues

    def kinds_in(self, entry: str) -> frozenset[str]:
        """What an entry asks of the run side."""
        return frozenset(site.kind for site in self.sites if site.entry == entry) - NATIVE_KINDS
