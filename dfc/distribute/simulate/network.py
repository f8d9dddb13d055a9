"""What messages cost between ranks: latency, bandwidth and processor time, as LogGP has them (Alexandrov et al., 1995).

Assumes a network in which any two ranks reach each other alike. A link is that of one rank, one way: what it sends, or
what it receives, one message after the other.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.place.cost import LATENCY, WIRE_RATE
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, mapping, text

FORMAT = "dfc network 1"
KEYS = frozenset({"format", "latency", "message", "bandwidth", "request", "call", "imbalance", "seed", "measured"})

MOST_SECONDS, MOST_BANDWIDTH, MOST_IMBALANCE = 1e6, 1e18, 10


@dataclass(frozen=True, slots=True)
class Network:
    """`latency` in seconds from a link to another; `message` the seconds of a processor for each message that it sends
    or receives; `bandwidth` the bytes per second of a link; `request` the seconds of a processor each time that native
    code asks its host, for a sum or a message; `call` those of rank 0 for a call, and of another rank for its part.
    Stragglers: the seconds that a rank computes are multiplied by e to a normal number times `imbalance`, drawn for
    each rank from `seed`."""

    latency: float
    message: float
    bandwidth: float
    request: float = 0.0
    call: float = 0.0
    imbalance: float = 0.0
    seed: int = 0


DEFAULT = Network(latency=LATENCY, message=5e-6, bandwidth=WIRE_RATE, request=1e-5, call=5e-5)
"""The table of rates that placement uses, where no file says what the network can do."""


def network_of(content: str) -> Network:
    """From the text of a file; ValueError says what is wrong with it. `measured` is for whoever reads the file: where
    the numbers are from."""
    data = mapping(strict_json.parse(content), "the network")
    if text(data.get("format"), "format") != FORMAT:
        raise ValueError(f'its format is not "{FORMAT}"')
    unknown = sorted(data.keys() - KEYS)
    if unknown:
        raise ValueError(f"nothing is called {unknown[0]!r} there; there are {', '.join(sorted(KEYS))}")
    missing = sorted({"latency", "message", "bandwidth"} - data.keys())
    if missing:
        raise ValueError(f"it has no {missing[0]!r}")
    return Network(
        _number(data["latency"], "latency"),
        _number(data["message"], "message"),
        _number(data["bandwidth"], "bandwidth", 1, MOST_BANDWIDTH),
        _number(data.get("request", 0.0), "request"),
        _number(data.get("call", 0.0), "call"),
        _number(data.get("imbalance", 0.0), "imbalance", 0, MOST_IMBALANCE),
        integer(data.get("seed", 0), "seed"),
    )


def _number(value: object, name: str, low: float = 0, high: float = MOST_SECONDS) -> float:
    """Within limits that keep all sums of times finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} is not a number from {low:g} to {high:g}")
    return float(value)
