"""Who passes a call on: everybody is reached once, by few messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfc_runtime.distributed.relays.call_tree import FAN_OUT, addressed, piece_of, pieces


def reached(begin: int, end: int, depth: int = 1) -> list[tuple[int, int]]:
    """Each part that gets a message, and through how many hands it went."""
    found: list[tuple[int, int]] = []
    for first, last in pieces(begin, end):
        found += [(first, depth), *reached(first + 1, last, depth + 1)]
    return found


@pytest.mark.parametrize("parts", [1, 7, 8, 9, 63, 72, 73, 1000, 4095])
def test_each_part_gets_one_message_through_few_hands(parts: int) -> None:
    found = reached(5, 5 + parts)
    assert sorted(part for part, _ in found) == list(range(5, 5 + parts))
    assert max(depth for _, depth in found) <= math.ceil(math.log(parts + 1, FAN_OUT)) + (parts % FAN_OUT == 0)
    assert len(pieces(5, 5 + parts)) == min(parts, FAN_OUT)


def test_pieces_are_of_like_sizes() -> None:
    sizes = [end - begin for begin, end in pieces(3, 3 + 8 * 5 + 3)]
    assert (sorted(sizes), sum(sizes)) == ([5] * 5 + [6] * 3, 43)
    assert pieces(4, 4) == []


def test_a_message_says_which_piece_its_receiver_sees_to() -> None:
    message = addressed(b"call", (7, 4096))
    assert piece_of(np.frombuffer(message, np.uint8)) == (b"call", (7, 4096))
