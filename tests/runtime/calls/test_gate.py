"""Who may be inside at once, told by what threads have reached."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dfc_runtime.calls.conflicts import Group
from dfc_runtime.calls.gate import Closed, Door, Gate, Mode, Queue, Together

SOON, NEVER = 30.0, 0.05


class Visitor:
    """A thread that goes in, says so, and stays until it is let go."""

    def __init__(self, mode: Mode) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(mode,), daemon=True)
        self._thread.start()

    def _run(self, mode: Mode) -> None:
        with mode:
            self.inside.set()
            self.go.wait(SOON)

    def leave(self) -> None:
        self.go.set()
        self._thread.join(SOON)


def test_sharers_are_inside_together_and_keep_others_out() -> None:
    door = Door()
    first, second = Visitor(door.shared), Visitor(door.shared)
    assert first.inside.wait(SOON) and second.inside.wait(SOON)
    alone = Visitor(door.alone)
    first.leave()
    assert not alone.inside.wait(NEVER)
    second.leave()
    assert alone.inside.wait(SOON)
    third = Visitor(door.shared)
    assert not third.inside.wait(NEVER)
    alone.leave()
    assert third.inside.wait(SOON)
    third.leave()


def test_newcomers_do_not_overtake_who_waits_to_be_alone() -> None:
    door = Door()
    first = Visitor(door.shared)
    assert first.inside.wait(SOON)
    alone = Visitor(door.alone)
    assert not alone.inside.wait(NEVER)
    late = Visitor(door.shared)
    assert not late.inside.wait(NEVER)
    first.leave()
    assert alone.inside.wait(SOON) and not late.inside.is_set()
    alone.leave()
    assert late.inside.wait(SOON)
    late.leave()


BESIDE = {
    ("exclusive", "readonly"),
    ("concurrent", "concurrent"),
    ("concurrent", "readonly"),
    ("readonly", "exclusive"),
    ("readonly", "concurrent"),
    ("readonly", "readonly"),
}
GROUPS = [Group(frozenset({0}), frozenset({1}))]
MODES: dict[str, Callable[[Gate], Mode]] = {
    "exclusive": lambda gate: gate.call(0),
    "concurrent": lambda gate: gate.call(1),
    "readonly": lambda gate: gate.readonly,
    "whole": lambda gate: gate.whole,
    "closed": lambda gate: Closed(gate).readonly,
}


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_who_runs_beside_whom(first: str, second: str) -> None:
    gate = Gate(GROUPS)
    inside = Visitor(MODES[first](gate))
    assert inside.inside.wait(SOON)
    other = Visitor(MODES[second](gate))
    beside = (first, second) in BESIDE
    assert other.inside.wait(SOON if beside else NEVER) is beside
    inside.leave()
    assert other.inside.wait(SOON)
    other.leave()


def test_calls_exclude_those_of_their_own_groups_and_python_excludes_all() -> None:
    """Entries 0 and 1 share nothing, 2 shares something with each; 3 is concurrent and shares with nobody."""
    gate = Gate([Group(frozenset({0, 2})), Group(frozenset({1, 2}))])
    beside = [Visitor(gate.call(number)) for number in (0, 1, 3)]
    assert all(each.inside.wait(SOON) for each in beside)
    whole = Visitor(gate.whole)
    beside[0].leave()
    beside[1].leave()
    assert not whole.inside.wait(NEVER)  # the concurrent one is there
    beside[2].leave()
    assert whole.inside.wait(SOON)
    both = Visitor(gate.call(2))
    assert not both.inside.wait(NEVER)
    whole.leave()
    assert both.inside.wait(SOON)
    late = [Visitor(gate.call(number)) for number in (0, 1)]
    assert not any(each.inside.wait(NEVER) for each in late)
    both.leave()
    assert all(each.inside.wait(SOON) for each in late)
    for each in late:
        each.leave()
    assert [gate.arena(number) for number in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_in_a_queue_nobody_runs_beside_anybody(first: str, second: str) -> None:
    gate = Queue()
    inside = Visitor(MODES[first](gate))
    assert inside.inside.wait(SOON)
    other = Visitor(MODES[second](gate))
    assert not other.inside.wait(NEVER)
    inside.leave()
    assert other.inside.wait(SOON)
    other.leave()


def test_a_way_in_that_breaks_leaves_what_was_entered() -> None:
    class Broken:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError("never entered")

    door = Door()
    with pytest.raises(KeyboardInterrupt), Together([door.alone, Broken()]):
        pass
    with pytest.raises(ZeroDivisionError), door.alone:
        raise ZeroDivisionError
    with door.alone:
        pass


def test_who_gives_up_waiting_to_be_alone_lets_others_in() -> None:
    door = Door()

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    first = Visitor(door.shared)
    assert first.inside.wait(SOON)
    door._shared._left = Impatient()
    with pytest.raises(KeyboardInterrupt), door.alone:
        pass
    second = Visitor(door.shared)
    assert second.inside.wait(SOON)
    for each in (first, second):
        each.leave()


def test_many_who_come_and_go_never_meet_who_is_alone() -> None:
    door, inside, met = Door(), [0], list[int]()
    stop = threading.Event()

    def share() -> None:
        while not stop.is_set():
            with door.shared:
                inside.append(1)
                inside.pop()

    threads = [threading.Thread(target=share) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(200):
        with door.alone:
            met.append(len(inside))
    stop.set()
    for each in threads:
        each.join(SOON)
    assert met == [1] * 200
    with door.alone:
        pass


def test_calls_that_use_queues_alone_are_kept_from_nothing_but_the_end() -> None:
    gate = Gate(GROUPS)
    with gate.queueing:
        for mode in (gate.whole, gate.call(0), gate.readonly):
            with mode:
                pass
        closing = Visitor(gate.closing)
        assert not closing.inside.wait(NEVER)
    assert closing.inside.wait(SOON)
    closing.leave()


@pytest.mark.parametrize(
    "groups", [[Group(frozenset({0})), Group(frozenset({1}))], [Group(frozenset(), frozenset({0, 1}))]]
)
def test_who_waits_for_one_that_waits_inside_lets_others_in_meanwhile(groups: list[Group]) -> None:
    """Before, it kept them out with the locks that it had already, or with the door that it had closed."""
    gate, fed = Gate(groups), threading.Event()
    gate.is_waited_for = lambda: not fed.is_set()
    waiting = Visitor(gate.call(1))
    assert waiting.inside.wait(SOON)
    whole = Visitor(gate.whole)
    assert not whole.inside.wait(NEVER)
    for _ in range(3):
        feeding = Visitor(gate.call(0))
        assert feeding.inside.wait(SOON)
        feeding.leave()
    assert not whole.inside.is_set()
    fed.set()
    waiting.leave()
    assert whole.inside.wait(SOON)
    late = [Visitor(gate.call(number)) for number in (0, 1)]
    assert not any(each.inside.wait(NEVER) for each in late)
    whole.leave()
    for each in late:
        assert each.inside.wait(SOON)
        each.leave()
    assert not gate.forget_threads()  # nothing is held any more


@pytest.mark.parametrize(("mine", "others", "free"), [(0, 1, (1, 5)), (2, 3, (5,)), (4, 3, (0, 1)), (5, 0, (0, 1))])
def test_a_handler_that_forks_holds_what_it_held_and_nobody_else_does(
    mine: int, others: int, free: tuple[int, ...]
) -> None:
    """Entry 2 takes two locks, 3 and 4 share one that 5 takes alone; whoever was there beside has left things half
    done."""
    groups = [Group(frozenset({0, 2})), Group(frozenset({1, 2})), Group(frozenset({5}), frozenset({3, 4}))]
    gate = Gate(groups, has_requests=True)
    for has_others in (False, True):
        with gate.call(mine):
            if has_others:
                gone = threading.Thread(target=gate.call(others).__enter__)
                gone.start()
                gone.join()
            gate.serving.request = "what it answers"
            assert gate.forget_threads() is has_others
            gate.serving.request = ""
            visitors = [Visitor(gate.call(number)) for number in free]
            assert all(each.inside.wait(SOON) for each in visitors)
            late = Visitor(gate.whole)
            for each in visitors:
                each.leave()
            assert not late.inside.wait(NEVER)  # before this thread leaves
        assert late.inside.wait(SOON)
        late.leave()
