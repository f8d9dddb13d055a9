"""What all cases of JAX share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.cases.case import Array
from bench.peers.prepared import Prepared, Request


def arrays(state: Mapping[str, Array]) -> dict[str, Any]:
    """Copies on the device: what is donated must not be NumPy's."""
    return {name: jnp.array(value, copy=True) for name, value in state.items()}


def scores(p: Any, x: Any) -> Any:
    """The perceptron of two layers."""
    return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def constant(jitted: Callable[..., Any], *operands: Any) -> Prepared:
    """A call on arrays that lie on the device, waited for."""
    held = jax.tree.map(jnp.asarray, operands)
    return Prepared(
        lambda: jax.block_until_ready(jitted(*held)),
        lambda: [np.asarray(value) for value in jax.tree.leaves(jitted(*held))],
    )


def unary(function: Callable[[Any], Any]) -> Callable[[Request], Prepared]:
    return lambda request: constant(jax.jit(function), request.feeds[0])
