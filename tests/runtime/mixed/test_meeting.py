"""Values between devices: in order, complete whoever is faster, and an end for those who wait in vain."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dfc_runtime.mixed.meeting import Meeting, StoppedError

A, B, C = "@gpu0:0", "@gpu1:0", "@cpu0:0"


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    """What each of them returns, all of them at once."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [each.result(60) for each in [pool.submit(one) for one in work]]


@pytest.fixture(params=[5e-3, 1e-6])
def switching(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


def put(meeting: Meeting, key: str, to: tuple[str, ...], value: np.ndarray) -> None:
    meeting.put(key, to, value.ctypes.data, value.nbytes)


def take(meeting: Meeting, key: str, me: str, source: str, count: int) -> np.ndarray:
    found = np.zeros(count)
    meeting.take(key, me, source, found.ctypes.data, found.nbytes)
    return found


def begun(*devices: str) -> Meeting:
    meeting = Meeting()
    call = meeting.begin(devices)
    assert all(meeting.enter(device, call) for device in devices)
    return meeting


def test_values_of_a_key_come_in_their_order_and_are_copies(switching: None) -> None:
    meeting, rounds = begun(A, B, C), 200

    def send() -> None:
        value = np.zeros(300)
        for number in range(rounds):
            value[:] = number
            put(meeting, "x", (B, C), value)
        meeting.end(A)

    def receive(me: str) -> list[float]:
        found = [float(take(meeting, "x", me, A, 300).mean()) for _ in range(rounds)]
        meeting.end(me)
        return found

    _, one, other = in_threads(send, lambda: receive(B), lambda: receive(C))
    assert one == other == list(map(float, range(rounds)))
    meeting.wait()


def test_devices_that_wait_for_each_other_in_turns_come_to_an_end(switching: None) -> None:
    meeting = begun(A, B)

    def play(me: str, other: str, first: bool) -> float:
        ball = np.zeros(1)
        for _ in range(300):
            if not first:
                ball = take(meeting, f"{other} to {me}", me, other, 1) + 1
            put(meeting, f"{me} to {other}", (other,), ball)
            if first:
                ball = take(meeting, f"{other} to {me}", me, other, 1)
        meeting.end(me)
        return float(ball[0])

    assert in_threads(lambda: play(A, B, True), lambda: play(B, A, False)) == [300.0, 300.0]


def test_who_waits_for_one_that_has_ended_is_told_so(switching: None) -> None:
    meeting = begun(A, B)

    def fail() -> None:
        put(meeting, "x", (B,), np.ones(2))
        meeting.end(A)

    def receive() -> np.ndarray:
        found = take(meeting, "x", B, A, 2)  # what was sent before the end comes
        with pytest.raises(StoppedError):
            take(meeting, "y", B, A, 2)
        meeting.end(B)
        return found

    _, found = in_threads(fail, receive)
    np.testing.assert_array_equal(found, np.ones(2))
    assert meeting.was_stopped(B) and not meeting.was_stopped(A)


def test_a_value_goes_straight_to_who_waits_and_past_nobody(switching: None) -> None:
    """Some are waited for and some are not; in either case each comes once, and in its turn."""
    meeting, rounds = begun(A, B), 300

    def send() -> None:
        for number in range(rounds):
            put(meeting, "x", (B,), np.full(50, float(number)))
            if number % 7 == 0:
                take(meeting, "go", A, B, 1)
        meeting.end(A)

    def receive() -> list[float]:
        found = []
        for number in range(rounds):
            value = take(meeting, "x", B, A, 50)
            assert value.min() == value.max()
            found.append(float(value[0]))
            if number % 7 == 0:
                put(meeting, "go", (A,), np.ones(1))
        meeting.end(B)
        return found

    assert in_threads(send, receive)[1] == list(map(float, range(rounds)))


def test_a_call_begins_with_nothing_of_the_one_before() -> None:
    meeting = begun(A, B)
    put(meeting, "x", (B,), np.ones(1))
    meeting.end(A)
    meeting.end(B)
    late = meeting.begin([A, B])
    meeting.enter(A, late)
    meeting.enter(B, late)
    put(meeting, "x", (B,), np.full(1, 7.0))
    assert take(meeting, "x", B, A, 1) == 7.0
    assert not meeting.enter(A, late - 1)  # what was asked for an earlier call does not begin now


def test_an_interrupted_wait_ends_when_all_have_and_nobody_gets_more() -> None:
    meeting = Meeting()
    call = meeting.begin([A, B])
    meeting.enter(A, call)
    stuck = threading.Event()

    def receive() -> bool:
        with pytest.raises(StoppedError):
            stuck.set()
            take(meeting, "x", A, B, 1)
        meeting.end(A)
        return True

    def interrupt() -> bool:
        stuck.wait()
        meeting.stop()  # B has not begun: it is not waited for
        meeting.wait()
        return meeting.enter(B, call)

    assert in_threads(receive, interrupt) == [True, False]


def test_another_number_of_bytes_is_refused() -> None:
    meeting = begun(A, B)
    put(meeting, "x", (B,), np.ones(2))
    with pytest.raises(ValueError, match="16 bytes instead of 24"):
        take(meeting, "x", B, A, 3)
