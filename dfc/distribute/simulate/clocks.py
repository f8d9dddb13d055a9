"""What each rank is busy with, and until when: its processor, and its link either way.

Times are arrays over ranks, in seconds from the begin of a step. Assumes that a link carries one message at a time, and
that sending and receiving go on while a processor computes, but for the seconds that each message takes of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dfc.distribute.simulate.network import Network

Times = NDArray[np.float64]
Ranks = NDArray[np.int64]


class Clocks:
    """`now` is when the processor of a rank is free. What a resource was busy with is summed up in `computing`,
    `messaging` (the processor with messages and requests), `sending` and `receiving` (the link); `bytes_out` and
    `bytes_in` went over it."""

    def __init__(self, ranks: int, network: Network) -> None:
        self.network = network
        self.now = np.zeros(ranks)
        self._out = np.zeros(ranks)
        self._in = np.zeros(ranks)
        self.computing = np.zeros(ranks)
        self.messaging = np.zeros(ranks)
        self.sending = np.zeros(ranks)
        self.receiving = np.zeros(ranks)
        self.bytes_out = np.zeros(ranks)
        self.bytes_in = np.zeros(ranks)
        self._slowness = np.exp(network.imbalance * np.random.default_rng(network.seed).standard_normal(ranks))

    def compute(self, ranks: Ranks, seconds: Times | float) -> None:
        """Each of these ranks computes for so long, the slow ones for longer."""
        took = seconds * self._slowness[ranks]
        self.now[ranks] += took
        self.computing[ranks] += took

    def wait(self, ranks: Ranks, until: Times) -> None:
        """They do not go on before."""
        self.now[ranks] = np.maximum(self.now[ranks], until)

    def serve(self, ranks: Ranks, seconds: Times | float) -> None:
        """The processor is busy with a call, or with what native code asks its host for."""
        self.now[ranks] += seconds
        self.messaging[ranks] += seconds

    def handle(self, ranks: Ranks, messages: Times | float) -> None:
        """The processor sends or receives so many messages."""
        self.serve(ranks, messages * self.network.message)

    def send(self, ranks: Ranks, messages: Times | float, size: float) -> Times:
        """The link of each of these ranks carries so many messages of so many bytes each; when the last one has
        left. What the processor does for them is counted by `handle`."""
        took = messages * size / self.network.bandwidth
        self._out[ranks] = np.maximum(self._out[ranks], self.now[ranks]) + took
        self.sending[ranks] += took
        self.bytes_out[ranks] += messages * size
        return self._out[ranks]

    def arrive(self, ranks: Ranks, messages: Times | float, size: float, left: Times | float, first: float) -> Times:
        """Each of these ranks receives so many such messages, the last of which left its sender at `left`, the first
        one at `first` at the earliest; when all are there. The processor takes them when it waits for them."""
        took = messages * size / self.network.bandwidth
        begin = np.maximum(self._in[ranks], first + self.network.latency)
        self._in[ranks] = np.maximum(begin + took, left + self.network.latency)
        self.receiving[ranks] += took
        self.bytes_in[ranks] += messages * size
        return self._in[ranks]
