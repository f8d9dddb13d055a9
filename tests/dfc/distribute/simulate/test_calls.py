"""The predicted messages of a call: one to each rank and one back, along a tree where ranks can pass it on."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.distribute.simulate import Network
from dfc.distribute.simulate.calls import Calls
from dfc.distribute.simulate.clocks import Clocks
from dfc_runtime.distributed.relays.call_tree import FAN_OUT

MESSAGE = 1e-3


def stepped(ranks: int, *, passes_on: bool, latency: float = 0.0) -> Clocks:
    """The clocks after a call and its answers, of ranks that compute nothing."""
    clocks = Clocks(ranks, Network(latency, MESSAGE, 1e30))
    calls = Calls(clocks, np.arange(1, ranks), down=16.0, messages=1, up=0.0, passes_on=passes_on)
    calls.call()
    calls.answer()
    return clocks


@pytest.mark.parametrize("ranks", [2, 9, 10, 100, 1001])
def test_each_rank_gets_one_message_and_answers_with_one(ranks: int) -> None:
    for passes_on in (True, False):
        clocks = stepped(ranks, passes_on=passes_on)
        assert clocks.messaging.sum() == pytest.approx(4 * (ranks - 1) * MESSAGE)
        assert clocks.bytes_in[1:].tolist() == [16.0] * (ranks - 1)


def test_along_a_tree_no_rank_has_to_do_with_many() -> None:
    alone, passed_on = stepped(4096, passes_on=False), stepped(4096, passes_on=True)
    assert alone.messaging[0] == pytest.approx(2 * 4095 * MESSAGE)
    assert passed_on.messaging.max() == pytest.approx((2 * FAN_OUT + 2) * MESSAGE)
    assert passed_on.now[0] < alone.now[0] / 50


def test_a_tree_has_a_latency_each_way_for_each_level() -> None:
    for ranks, levels in ((9, 1), (10, 2), (73, 2), (74, 3)):
        clocks = Clocks(ranks, Network(1.0, 0.0, 1e30))
        calls = Calls(clocks, np.arange(1, ranks), down=16.0, messages=1, up=0.0, passes_on=True)
        calls.call()
        calls.answer()
        assert clocks.now[0] == pytest.approx(2 * levels), ranks
