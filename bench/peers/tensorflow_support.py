"""What all cases of TensorFlow share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bench.cases.case import Array
from bench.peers.prepared import Prepared

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What makes a graph of a function, compiled by XLA or not."""


def wrapper(system: str) -> Wrap:
    return lambda function: tf.function(function, jit_compile=system == "tf_xla", autograph=False)


def variables(state: Mapping[str, Array]) -> dict[str, Any]:
    return {name: tf.Variable(value) for name, value in state.items()}


def constant(call: Callable[[], Any]) -> Prepared:
    """A call whose one result is waited for: `numpy` shares the memory of the result, it copies nothing."""
    return Prepared(lambda: call().numpy(), lambda: [call().numpy()])


def several(call: Callable[[], Sequence[Any]]) -> Prepared:
    """A call with several results, each waited for."""

    def values() -> list[Any]:
        return [value.numpy() for value in call()]

    return Prepared(values, values)
