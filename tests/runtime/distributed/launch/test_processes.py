"""The processes of a job: who ended first is known however late one looks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator

import pytest

from dfc_runtime.distributed.launch.processes import Ends


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Six that wait for their input to end."""
    made = [subprocess.Popen(["cat"], stdin=subprocess.PIPE) for _ in range(6)]
    yield made
    for each in made:
        each.kill()
        each.communicate()


def end(child: subprocess.Popen[bytes]) -> None:
    """Kills a child, and leaves it as it is then: its parent has not asked for it."""
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("seed", range(4))
def test_processes_are_told_in_the_order_of_their_ends(seed: int, children: list[subprocess.Popen[bytes]]) -> None:
    ends = Ends()
    for child in children:
        ends.follow(child.pid)
    assert ends.new() == []
    order = random.Random(seed).sample(children, 4)
    for child in order:
        end(child)
    assert ends.new() == [child.pid for child in order]
    assert ends.new() == []
    assert ends.follows(child.pid for child in children)
    ends.close()


def test_what_was_gone_before_is_not_followed(children: list[subprocess.Popen[bytes]]) -> None:
    ends = Ends()
    gone = children[0]
    gone.kill()
    gone.wait()
    ends.follow(gone.pid)
    ends.follow(children[1].pid)
    ends.follow(children[1].pid)
    assert not ends.follows([gone.pid])
    end(children[1])
    assert ends.new() == [children[1].pid]
    ends.close()


def test_what_ended_before_it_was_followed_is_told_without_an_order(children: list[subprocess.Popen[bytes]]) -> None:
    ends = Ends()
    ends.follow(children[0].pid)
    end(children[2])
    ends.follow(children[1].pid)
    ends.follow(children[2].pid)
    assert ends.orders([children[0].pid, children[1].pid])
    assert ends.follows([children[2].pid]) and not ends.orders([children[2].pid])
    assert ends.new() == [children[2].pid]
    ends.close()
