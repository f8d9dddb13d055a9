"""The layout of queues in memory."""

from __future__ import annotations

import pytest

from dfc.ir.dtypes import F32, I32, I64, U8
from dfc.ir.queues import (
    QueueForm,
    field_bytes,
    field_offsets,
    first_bucket,
    first_slot,
    queue_bytes,
    slot_bytes,
)
from dfc.ir.types import TensorType, tensor
from dfc_runtime.formats.queue_layout import FIELD_ALIGNMENT, HEADER_BYTES, POSITION_BYTES, SLOT_ALIGNMENT

FORMS = [
    QueueForm(("value",), (TensorType(U8),), 1),
    QueueForm(("x", "y"), (tensor(F32, 784), TensorType(I32)), 100, 10),
    QueueForm(("x", "y"), (tensor(F32, 7), TensorType(I32)), 100, 10, "y"),
    QueueForm(("x", "x_length"), (tensor(F32, 9), TensorType(I64)), 21, bounds=(3, 9), varying=(0,)),
    QueueForm(("x", "y"), (tensor(F32, 7), TensorType(I32)), 100, 10, reserve=4),
    QueueForm(("x", "x_length"), (tensor(F32, 9), TensorType(I64)), 21, bounds=(3, 9), varying=(0,), reserve=3),
    QueueForm(("a", "b", "c"), (tensor(U8, 3), tensor(F32, 0), tensor(F32, 2, 5)), 7),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form.fields))
def test_header_order_slots_and_fields_lie_apart(form: QueueForm) -> None:
    assert first_bucket(form) == HEADER_BYTES + POSITION_BYTES * form.slots
    buckets = 2 * len(form.bounds) + form.slots if form.bounds else 0
    assert first_slot(form) >= first_bucket(form) + POSITION_BYTES * buckets
    ends = [offset + field_bytes(type_) for offset, type_ in zip(field_offsets(form), form.types, strict=True)]
    assert all(end <= begin for end, begin in zip(ends, field_offsets(form)[1:], strict=False))
    assert ends[-1] <= slot_bytes(form)
    assert queue_bytes(form) == first_slot(form) + form.slots * slot_bytes(form)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form.fields))
def test_slots_and_fields_are_aligned(form: QueueForm) -> None:
    assert first_slot(form) % SLOT_ALIGNMENT == 0
    assert slot_bytes(form) % SLOT_ALIGNMENT == 0
    assert not any(offset % FIELD_ALIGNMENT for offset in field_offsets(form))


def test_the_last_element_of_a_take_still_has_a_full_window() -> None:
    assert QueueForm(("x",), (TensorType(F32),), 100, 10).most_at_once == 91
    assert QueueForm(("x",), (TensorType(F32),), 100).most_at_once == 100


def test_one_bucket_of_a_full_queue_has_what_a_take_may_ask_for() -> None:
    form = QueueForm(("x", "x_length"), (tensor(F32, 9), TensorType(I64)), 10, bounds=(3, 6, 9), varying=(0,))
    assert form.most_at_once == 4  # three elements in each, and one more


def test_two_staged_batches_take_the_memory_of_one_and_of_one_batch() -> None:
    one, two = (QueueForm(("x", "y"), (tensor(F32, 128, 784), tensor(I32, 128)), depth, reserve=1) for depth in (1, 2))
    assert queue_bytes(two) - queue_bytes(one) == 128 * 784 * 4 + 128 * 4
