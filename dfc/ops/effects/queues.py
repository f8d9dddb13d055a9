"""Queues: elements are put in at one end and taken out at the other, by calls and runners at the same time.

    queue_put(QueueAttributes): x.., t -> t           waits while the queue is full
    queue_take(TakeAttributes): [draws], t -> x.., t  waits until there are enough; draws: of a shuffled queue, f64[n],
                                                      one number in [0, 1) for each element that is taken
    queue_take_up_to(TakeAttributes): [draws], t -> x.., count, t   the same, but of the last elements of a closed
                                                      queue there may be fewer, and none where `least` is 0; rows behind
                                                      the count mean nothing
    queue_size(QueueAttributes): t -> i64, t
    queue_close(QueueAttributes): t -> t              takes go on until it is empty, and then fail with the end of data

`t` is the token of the queue. What a put writes, a take reads; nothing else is promised between threads. They are calls
of the host to all passes; a target that runs queues itself never asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import F64, I64
from dfc.ir.types import TensorType
from dfc.ops.effects.host_ops import HostOps, no_results, not_evaluated
from dfc.ops.record import OpError, Parameter
from dfc.ops.rules.op_rules import DEFAULTS

PUT, TAKE, SIZE, CLOSE = "queue_put", "queue_take", "queue_size", "queue_close"
TAKE_UP_TO = "queue_take_up_to"
TAKES = (TAKE, TAKE_UP_TO)
QUEUES = "@queues"
"""What the records name in place of a queue: their tokens are those of the queues that attributes name."""


@dataclass(frozen=True, slots=True)
class QueueAttributes(Attributes):
    """The full name of a queue."""

    resource: str


@dataclass(frozen=True, slots=True)
class TakeAttributes(Attributes):
    """What one take gets out of a queue: a value of each of these types, or of `count` elements the values stacked
    along a new first axis. `least`, 0 or 1, is how few a take of up to `count` may get behind the end of the data: with
    0 that is no error."""

    resource: str
    types: tuple[TensorType, ...]
    count: Dim | None = None
    least: int = 1


def _infer_put(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    del attributes
    if not types:
        raise OpError("E0204", "an element has at least one value")
    return ()


def _infer_take(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, TakeAttributes)
    count = attributes.count
    draws = TensorType(F64, (dim(1) if count is None else count,))
    if types and list(types) != [draws]:
        raise OpError("E0302", f"a take draws {draws}", blame=0, label=str(types[0]))
    if count is None:
        return attributes.types
    return tuple(each.with_shape((count, *each.shape)) for each in attributes.types)


def _infer_take_up_to(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    return (*_infer_take(types, attributes), TensorType(I64))


def _infer_size(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    del types, attributes
    return (TensorType(I64),)


OPS = HostOps(
    family="queues",
    resource=QUEUES,
    no_gradient="a gradient does not pass through a queue",
    evaluate=not_evaluated("a queue is used by several threads, and only a compiled program has them"),
    rules=replace(DEFAULTS, alone="uses a queue"),
)
"""Mutexes are queues too."""
_VALUES = (Parameter("values", "tensors"),)
OPS.register(
    PUT,
    "Puts an element into a queue; waits while it is full.",
    "proc queue_put(const resource: str, values: tensors)",
    _VALUES,
    _infer_put,
    QueueAttributes,
    ("one value for each field of the queue, of its type.",),
)
OPS.register(
    TAKE,
    "Takes an element, or several at once, out of a queue; waits until they are there.",
    "proc queue_take(const resource: str, draws: f64[N])",
    _VALUES,
    _infer_take,
    TakeAttributes,
    ("draws are given if and only if the queue is shuffled: a number in [0, 1) for each element.",),
)
OPS.register(
    TAKE_UP_TO,
    "Takes several elements out of a queue, or those that are left of a closed one, with their number.",
    "proc queue_take_up_to(const resource: str, draws: f64[N]) -> i64",
    _VALUES,
    _infer_take_up_to,
    TakeAttributes,
    ("draws as for `queue_take`.", "rows behind the number hold nothing."),
)
OPS.register(
    SIZE,
    "How many elements are in a queue.",
    "proc queue_size(const resource: str) -> i64",
    _VALUES,
    _infer_size,
    QueueAttributes,
)
OPS.register(
    CLOSE,
    "Lets nothing more into a queue: takes go on until it is empty, and then fail with the end of data.",
    "proc queue_close(const resource: str)",
    _VALUES,
    no_results,
    QueueAttributes,
)
