"""A description of a network is read whole, or refused with what is wrong in it."""

from __future__ import annotations

import json

import pytest

from dfc.distribute.simulate import Network, network_of

GOOD = {"format": "dfc network 1", "latency": 2e-6, "message": 1e-6, "bandwidth": 1e9}


def test_a_network_says_what_messages_cost() -> None:
    assert network_of(json.dumps(GOOD)) == Network(2e-6, 1e-6, 1e9)
    more = {**GOOD, "request": 5e-6, "call": 4e-5, "imbalance": 0.1, "seed": 7, "measured": {"ranks": [2, 3]}}
    assert network_of(json.dumps(more)) == Network(2e-6, 1e-6, 1e9, 5e-6, 4e-5, 0.1, 7)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "dfc profile 1"}, 'its format is not "dfc network 1"'),
        ({"latency": None}, "it has no 'latency'"),
        ({"latency": -1}, "latency is not a number from 0 to 1e\\+06"),
        ({"latency": 10**400}, "latency is not a number from 0 to 1e\\+06"),
        ({"bandwidth": 0}, "bandwidth is not a number from 1 to 1e\\+18"),
        ({"imbalance": 1e6}, "imbalance is not a number from 0 to 10"),
        ({"bandwith": 1e9}, "nothing is called 'bandwith' there"),
        ({"seed": 1.5}, "seed is not a whole number"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], complaint: str) -> None:
    data = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(ValueError, match=complaint):
        network_of(json.dumps(data))
