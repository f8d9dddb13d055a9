"""Programs over one queue, built by hand: an entry that puts, one that takes, and the rest; and what a queue means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.diagnostics.source import SourceFile, Span
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import F64, I64, DType
from dfc.ir.graph import Resource, ResourceKind
from dfc.ir.queues import QueueForm, queue_bytes, queue_type
from dfc.ir.types import TensorType
from dfc.kernels.program import Buffer, BufferRole, EntryProgram, HostCall, HostSite, Program
from tests.support.native_run import NativeRun

SPAN = Span(SourceFile("queue.dfg", "queue q\n"), 0, 5)
N = dim(Symbol("N"))
Array = np.ndarray


def form(fields: Sequence[tuple[DType, tuple[int, ...]]], capacity: int, window: int = 1, key: str = "") -> QueueForm:
    types = tuple(TensorType(dtype, tuple(map(dim, shape))) for dtype, shape in fields)
    return QueueForm(tuple(f"f{i}" for i in range(len(types))), types, capacity, window, key)


def bucket_form(fields: Sequence[tuple[DType, tuple[int, ...]]], capacity: int, bounds: Sequence[int]) -> QueueForm:
    """A queue with buckets, whose fields of any shape vary in their first size; that one is given as 0."""
    varying = tuple(number for number, (_, shape) in enumerate(fields) if shape)
    sized = [(dtype, (bounds[-1], *shape[1:]) if shape else ()) for dtype, shape in fields]
    plain = form([*sized, *[(I64, ())] * len(varying)], capacity)
    return replace(plain, bounds=tuple(bounds), varying=varying)


def queue_program(queue: QueueForm) -> Program:
    """Entries `put` (of lengths L0, L1, .. where these vary), `take` (of one), `many` (of N; with draws where it is
    shuffled), `up_to`, `size` and `close`."""
    program = Program("queue")
    program.resources["q"] = Resource(
        "q", ResourceKind.QUEUE, queue_type(queue), False, None, SPAN, saved=False, queue=queue
    )
    program.fault("queue", "q", SPAN)
    values = [(each.machine, each.shape) for each in queue.types]
    draws = [(F64, (dim(1),))] if queue.is_shuffled else []
    many_draws = [(F64, (N,))] if queue.is_shuffled else []
    put = [(d, (dim(Symbol(f"L{i}")), *s[1:]) if i in queue.varying else s) for i, (d, s) in enumerate(values)]
    _entry(program, "put", "queue_put", put, [])
    _entry(program, "take", "queue_take", draws, values)
    _entry(program, "many", "queue_take", many_draws, [(dtype, (N, *shape)) for dtype, shape in values])
    rows = [(dtype, (N, *shape)) for dtype, shape in values]
    _entry(program, "up_to", "queue_take_up_to", many_draws, [*rows, (I64, ())])
    _entry(program, "size", "queue_size", [], [(I64, ())])
    _entry(program, "close", "queue_close", [], [])
    return program


def _entry(
    program: Program,
    name: str,
    kind: str,
    inputs: Sequence[tuple[DType, tuple[Dim, ...]]],
    outputs: Sequence[tuple[DType, tuple[Dim, ...]]],
) -> None:
    attributes = (("resource", "q"), ("fault", 0))
    site = program.host_site(HostSite(kind, attributes, tuple(inputs), tuple(outputs), (name,), SPAN))
    buffers = [Buffer(d, s, BufferRole.ARGUMENT, f"a{i}", index=i) for i, (d, s) in enumerate(inputs)]
    buffers += [Buffer(d, s, BufferRole.RESULT, f"r{i}", index=i) for i, (d, s) in enumerate(outputs)]
    arguments, results = tuple(range(len(inputs))), tuple(range(len(inputs), len(buffers)))
    symbols = {symbol for _, shape in (*inputs, *outputs) for size in shape for symbol in size.symbols()}
    dims = tuple(sorted(symbols, key=str))
    zero = dim(0)
    step = HostCall(site, arguments, results)
    program.entries.append(EntryProgram(name, buffers, (step,), arguments, results, dims, zero, zero))


def native_queue(queue: QueueForm, isa: str = "") -> NativeRun:
    """The program with an empty queue."""
    return NativeRun(queue_program(queue), {"q": np.zeros(queue_bytes(queue), np.uint8)}, isa=isa)


class Reference:
    """What a queue means, element by element: a list, of which a take by chance exchanges two and takes the first, and
    one by key takes the smallest, NaN last."""

    def __init__(self, queue: QueueForm) -> None:
        self.queue = queue
        self.elements: list[tuple[Array, ...]] = []

    def put(self, *values: Array) -> None:
        assert len(self.elements) < self.queue.capacity
        self.elements.append(tuple(np.array(each) for each in values))

    def take(self, draws: Sequence[float]) -> list[tuple[Array, ...]]:
        taken: list[tuple[Array, ...]] = []
        for draw in draws:
            window = min(self.queue.window, len(self.elements))
            chosen = min(int(draw * window), window - 1)
            self.elements[0], self.elements[chosen] = self.elements[chosen], self.elements[0]
            taken.append(self.elements.pop(0))
        return taken

    def take_smallest(self) -> tuple[Array, ...]:
        field = self.queue.fields.index(self.queue.key)
        keys = np.array([each[field] for each in self.elements[: self.queue.window]])
        if self.queue.types[field].machine.is_float:
            keys = keys.astype(np.float64)  # NumPy sorts no NaN of other types
        return self.elements.pop(int(np.argsort(keys, kind="stable")[0]))

    def take_bucket(self, count: int, *, is_closed: bool = False) -> list[tuple[Array, ...]]:
        """The elements of the bucket of which `count` are there first; of the oldest one, if no more can come."""
        buckets = [self._bucket(each) for each in self.elements]
        whole = (b for end, b in enumerate(buckets) if buckets[: end + 1].count(b) == count)
        bucket = next(whole, buckets[0] if is_closed and buckets else -1)
        chosen = [number for number, b in enumerate(buckets) if b == bucket][:count]
        taken = [self.elements[number] for number in chosen]
        self.elements = [each for number, each in enumerate(self.elements) if number not in chosen]
        return taken

    def _bucket(self, values: tuple[Array, ...]) -> int:
        lengths = values[len(values) - len(self.queue.varying) :]
        return sum(int(max(lengths)) > bound for bound in self.queue.bounds)
