"""Batch normalisation in a training step: what the backward pass reads of it, and nothing more, has memory."""

from __future__ import annotations

import numpy as np

from dfc.driver.pipeline import optimise
from dfc.ir.dims import Symbol
from tests.support.building import graph_of
from tests.support.lowering import agree

CHANNELS = 32
TEXT = f"""dfg 1

param w: f32[6, {CHANNELS}] = normal()
param scale: f32[{CHANNELS}] = 1
param shift: f32[{CHANNELS}] = 0
param u: f32[{CHANNELS}, {CHANNELS}] = normal()
var running: f32[{CHANNELS}] = 0

entry e[B](x: f32[B, 9, 6]) -> (loss: f32) {{
  let y = x @ w
  let center = mean(y, keep = -1)
  let variance = mean(square(y - center), keep = -1)
  running += 0.1 * (variance - running)
  let z = relu((y - center) * rsqrt(variance + 1e-5) * scale + shift)
  let loss = mean(square(z @ u))
  each p in params(program), g in grad(loss, params(program)) {{
    p -= 0.1 * g
  }}
  return loss
}}
"""


def test_a_training_step_keeps_a_product_and_what_is_made_of_it() -> None:
    """The product, the positive part, and two gradients of that size at once: not what is a few operations away."""
    rng = np.random.default_rng(5)
    shapes = {"w": (6, CHANNELS), "scale": (CHANNELS,), "shift": (CHANNELS,), "u": (CHANNELS, CHANNELS)}
    state = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    state["running"] = np.zeros(CHANNELS, np.float32)
    feeds = {"x": rng.normal(size=(3, 9, 6)).astype(np.float32)}
    program, _ = agree(optimise(graph_of(TEXT)), feeds, state, {"B": 3})
    live = [program.entries[0].largest_live.evaluate({Symbol("B"): rows}) for rows in (1000, 2000)]
    assert live[1] - live[0] <= 4 * (1000 * 9 * CHANNELS * 4)
