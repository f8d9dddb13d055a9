"""Positions in place of the elements of a queue: read as they were written, and nothing else is taken."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from dfc_runtime.checkpoints import positions, queues
from dfc_runtime.checkpoints.positions import HEAD, Positions
from dfc_runtime.checkpoints.shuffled import Taken
from dfc_runtime.formats.queue_layout import QueueField, QueueLayout

LAYOUT = QueueLayout((QueueField("x", "i16", (3,)), QueueField("y", "f64", ())), 7, is_reordered=True, window=4)
POSITIONS = Positions(Taken(2**63 + 9, 5, 2, 4, 17, 12), 40, 30, hashlib.sha256(b"x").digest(), (3, 8, 39))


def test_positions_are_read_as_they_were_written() -> None:
    saved = POSITIONS.saved("pool")
    assert (saved.name, saved.dtype, saved.shape) == ("pool/@positions", "i64", (HEAD + 3,))
    assert positions.read(saved.array) == POSITIONS and POSITIONS.count == 5
    assert positions.fault_of("pool", LAYOUT, saved) == ""
    room = "pool has 5 elements, and room for 4: a larger capacity has room"
    assert positions.fault_of("pool", replace(LAYOUT, capacity=4), saved) == room


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 2), (1, 12), (2, -1), (2, 13), (3, 0), (4, 0), (5, -1), (7, -1), (8, 0), (HEAD, 9), (HEAD + 2, 40)]
    + [(at, 2**62 + 1) for at in (1, 5, 7, 8)],
)
def test_positions_that_cannot_be_are_refused(at: int, value: int) -> None:
    saved = POSITIONS.saved("pool")
    saved.array[at] = value
    assert positions.fault_of("pool", LAYOUT, saved).startswith("pool has positions ")
    assert positions.fault_of("pool", LAYOUT, replace(saved, array=saved.array[: HEAD - 1]))


@pytest.mark.parametrize(("take", "window"), [(2**40, 1), (1, 2**40), (1, 2**20 + 1)])
def test_a_queue_that_had_many_more_elements_ready_than_have_room_is_refused(take: int, window: int) -> None:
    """Following what was taken from it back would take memory for a multiple of these."""
    taken = Taken(7, 0, take, window, 2**40 + 5, 2**40)
    fault = positions.fault_of("pool", LAYOUT, replace(POSITIONS, taken=taken).saved("pool"))
    assert fault == f"pool had {max(take, window)} elements ready, and has room for 7: a larger capacity has room"
    largest = replace(taken, take=2**20, window=2**20)
    assert positions.fault_of("pool", LAYOUT, replace(POSITIONS, taken=largest).saved("pool")) == ""


def test_elements_lie_where_they_are_said_to_and_are_hashed_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_AT_ONCE", 2 * LAYOUT.slot_bytes)
    memory, slots = np.zeros(LAYOUT.size, np.uint8), np.array([4, 0, 6, 1, 5])
    memory[LAYOUT.first_slot :] = np.random.default_rng(3).integers(0, 256, len(memory) - LAYOUT.first_slot, np.uint8)
    queues.set_slots(LAYOUT, memory, 12, slots)
    assert queues.slots_of(LAYOUT, memory, 17, 12).tolist() == slots.tolist()
    assert sorted(queues.slots_of(LAYOUT, memory, 12 + 7, 12)) == list(range(7))
    x, y = (saved.array for saved in queues.contents("pool", LAYOUT, memory, 17, 12))
    elements = b"".join(x[number].tobytes() + y[number].tobytes() for number in range(5))
    assert positions.digest(LAYOUT, memory, slots) == hashlib.sha256(elements).digest()
