"""Entities that stand for state other than plain variables, and their methods: random numbers, queues, readers."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.elaborate.types.variable import Variable
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType
from dfc.ops.effects.records import RecordAttributes


@dataclass(frozen=True, slots=True)
class RngMethod:
    variable: Variable
    name: str


@dataclass(frozen=True, slots=True)
class QueueValue:
    """A queue. `is_tuple`: whether an element is a tuple of fields, or one value alone; `order` is the rng that a
    shuffled queue draws its elements with."""

    variable: Variable
    form: QueueForm
    is_tuple: bool
    order: Variable | None = None


@dataclass(frozen=True, slots=True)
class QueueMethod:
    queue: QueueValue
    name: str


@dataclass(frozen=True, slots=True)
class ReaderValue:
    """What `record_files` makes: the variable is its position, all else is known. `fields` are the types of those
    fields that a record has by its declaration; None is a string."""

    variable: Variable
    attributes: RecordAttributes
    fields: tuple[TensorType | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderMethod:
    reader: ReaderValue
    name: str
