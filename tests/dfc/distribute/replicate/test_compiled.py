"""Replicated entries as native code: each rank is a loaded bundle in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.bundle.writing import write
from dfc.distribute.replicate import Replication
from dfc.driver import pipeline
from dfc.ir.graph import Graph
from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.module import Module
from tests.support.replicating import Network, pieces, replicated_f32, same_bits, tree
from tests.support.sweeping import few

SAMPLES = Path(__file__).parents[4] / "samples"
NUMBERS = np.random.default_rng(11)
BLOCKS = 8
State = Mapping[str, np.ndarray]


def handlers(network: Network) -> dict[str, Handler]:
    times: dict[str, int] = {}

    def contribute(request: HostRequest) -> None:
        part, block = request.inputs
        for number, each in enumerate(part if request.site.attributes["stacked"] else [part], int(block)):
            network.put(str(request.site.attributes["key"]), each, number)

    def combined(request: HostRequest) -> None:
        key = str(request.site.attributes["key"])
        time = times[key] = times.get(key, -1) + 1
        parts = network.wait(key, BLOCKS, time)
        request.outputs[0][...] = tree(parts, str(request.site.attributes["combination"]))

    return {"contribute": contribute, "combined": combined}


def bundle(graph: Graph) -> bytes:
    program, lowered = pipeline.lower(graph)
    return write(program, lowered, graph.source, graph.settings, (), {}).to_bytes()


def on_ranks(data: bytes, about: Replication, feeds: Mapping[str, object], ranks: int) -> list[State]:
    """The state on every rank after three steps."""
    network = Network()
    cut = {name: np.stack(pieces(np.asarray(feeds[name]), piece, BLOCKS, {})) for name, piece in about.feeds.items()}
    states: dict[int, State] = {}

    def run(rank: int) -> None:
        first, stop = rank * BLOCKS // ranks, (rank + 1) * BLOCKS // ranks
        try:
            module = dfc.loads(data, threads=1, handlers=handlers(network))
            for _ in range(3):
                own = {name: rows[first:stop] for name, rows in cut.items()}
                module.train(**{**feeds, **own, str(about.first): first})
            states[rank] = state_of(module)
        finally:
            if rank not in states:
                network.fail()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [states[rank] for rank in range(ranks)]


def state_of(module: Module) -> State:
    return {name: np.array(value) for name, value in module.state.items()}


def _images(count: int) -> dict[str, object]:
    labels = NUMBERS.integers(0, 10, count).astype(np.int32)
    return {"images": NUMBERS.random((count, 64), np.float32), "labels": labels, "rate": np.float32(0.1)}


def _text(count: int) -> dict[str, object]:
    return {name: NUMBERS.integers(0, 27, (count, 5)).astype(np.int32) for name in ("text", "following")}


NOISY = """
dfg 1

from std.nn import dropout

var dice: rng = philox(seed = 3)
param w: f32[5] = 1

entry train[B](x: f32[B, 5], y: f32[B]) -> (l: f32) where B >= 1 {
  let h = dropout(x, 0.3, dice, training = true)
  let l = mean(square(h @ w - y))
  w -= 0.1 * grad(l, w)
  return l
}
"""


def _noise(count: int) -> dict[str, object]:
    return {"x": NUMBERS.random((count, 5), np.float32), "y": NUMBERS.random(count, np.float32)}


def _text_of(name: str) -> str:
    return NOISY if name == "noisy" else (SAMPLES / f"{name}.dfg").read_text()


@pytest.mark.parametrize(
    ("name", "settings", "feeds"),
    few([("noisy", {}, _noise(24)), ("digits", {"HIDDEN": 16}, _images(32)), ("lstm", {"WIDTH": 8}, _text(16))], 2),
)
def test_native_training_leaves_the_same_bits_on_any_number_of_ranks(
    name: str, settings: Mapping[str, int], feeds: dict[str, object]
) -> None:
    plain, graph, about = replicated_f32(_text_of(name), "train", BLOCKS, settings)
    undivided = dfc.loads(bundle(plain), threads=1)
    for _ in range(3):
        undivided.train(**feeds)
    data, expected = bundle(graph), state_of(undivided)
    one = on_ranks(data, about, feeds, 1)[0]
    for key, value in expected.items():
        np.testing.assert_allclose(one[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
    for ranks in (2, 3, 8):
        for state in on_ranks(data, about, feeds, ranks):
            assert all(same_bits(state[key], one[key]) for key in one), ranks
