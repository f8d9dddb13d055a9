"""What messages cost between ranks: latency, bandwidth and processor time, as LogGP has them (Alexandrov et al., 1995).

Assumes a network in which any two ranks reach each other alike. A link is that of one rank, one way: what it sends, or
what it receives, one message after the other.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.place.cost import LATENCY, WIRE_RATE
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, mapping, seconds, text

FORMAT = "dfc network 1"
KEYS = frozenset({"format", "latency", "message", "bandwidth", "request", "call", "imbalance", "seed", "measured"})


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
    bandwidth = seconds(data["bandwidth"], "bandwidth")
    if not bandwidth:
        raise ValueError("bandwidth is 0")
    return Network(
        seconds(data["latency"], "latency"),
        seconds(data["message"], "message"),
        bandwidth,
        seconds(data.get("request", 0.0), "request"),
        seconds(data.get("call", 0.0), "call"),
        seconds(data.get("imbalance", 0.0), "imbalance"),
        integer(data.get("seed", 0), "seed"),
    )
