"""Random programs of convolutions, views between them and gradients: made as matched, they mean the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.dfc.kernels.matching.test_convolutions import agree
from tests.support.sweeping import few

SEEDS = range(40)


def random_program(seed: int) -> tuple[str, list[Any]]:
    """Text and feeds."""
    rng = random.Random(seed)
    places = rng.choice([1, 2])
    channels, sizes = rng.choice([1, 2, 4]), [rng.randint(4, 7) for _ in range(places)]
    shape = [rng.choice([1, 2]), *sizes, channels]
    lines: list[str] = []
    feeds, parameters = [_numbers(shape)], [f"x: f32[{_listed(shape)}]"]
    value, written = "x", rng.choice([1, 2])
    for number in range(written):
        value = _viewed(rng, value, shape, lines, number)
        groups = rng.choice([g for g in (1, 2, 4) if shape[-1] % g == 0])
        windows = [rng.randint(1, 3) for _ in range(places)]
        kernel = [*windows, shape[-1] // groups, groups * rng.choice([1, 2])]
        steps = [rng.choice([1, 1, 2, 3]) for _ in range(places)]
        dilations = [rng.choice([1, 1, 2]) for _ in range(places)]
        pads = [[rng.choice([0, 1, 2]), rng.choice([0, 1, 2])] for _ in range(places)]
        each = zip(shape[1:-1], windows, steps, dilations, pads, strict=True)
        shape = [shape[0], *(_count(*one) for one in each), kernel[-1]]
        feeds.append(_numbers(kernel))
        parameters.append(f"w{number}: f32[{_listed(kernel)}]")
        lines.append(
            f"let c{number} = conv{places}d({value}, w{number}, stride = {steps}, dilation = {dilations}, "
            f"pad = {pads}, groups = {groups})"
        )
        value = f"c{number}"
        value = rng.choice([value, f"relu({value})", f"{value} + 1", f"{value} * {value}"])
    made = [f"sum({value})"]
    types = ["f32"]
    wanted = ["x", *(f"w{number}" for number in range(written))]
    for name, feed in zip(wanted, feeds, strict=True):
        if rng.random() < 0.7:
            made.append(f"grad(loss, {name})")
            types.append(f"f32[{_listed(feed.shape)}]")
    lines.append(f"let loss = sum({value} * {value})")
    results = ", ".join(f"r{n}: {kind}" for n, kind in enumerate(types))
    body = "\n  ".join(lines)
    text = f"readonly entry f({', '.join(parameters)}) -> ({results}) {{\n  {body}\n  return {', '.join(made)}\n}}"
    return text, feeds


def _viewed(rng: random.Random, value: str, shape: list[int], lines: list[str], number: int) -> str:
    """A view of the image, or a copy of it; `shape` is that of the view afterwards."""
    kind = rng.choice(["plain", "plain", "cut", "turned", "exchanged", "together"])
    if kind == "cut" and shape[1] > 5:
        shape[1] -= 1
        lines.append(f"let v{number} = ({value})[:, 1:]")
    elif kind == "turned":
        lines.append(f"let v{number} = reverse({value}, axis = 1)")
    elif kind == "exchanged" and len(shape) == 4:
        shape[1], shape[2] = shape[2], shape[1]
        lines.append(f"let v{number} = transpose({value}, [0, 2, 1, 3])")
    elif kind == "together" and shape[0] == 2:
        lines.append(f"let v{number} = concat([({value})[1:], ({value})[:1]], axis = 0)")
    else:
        return value
    return f"v{number}"


def _count(size: int, window: int, step: int, dilation: int, pad: list[int]) -> int:
    return (size + sum(pad) - (window - 1) * dilation - 1) // step + 1


def _numbers(shape: Any) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=tuple(shape)).astype(np.float32)


def _listed(shape: Any) -> str:
    return ", ".join(map(str, shape))


@pytest.mark.parametrize("seed", few(SEEDS, 20))
def test_random_programs_mean_the_same(seed: int) -> None:
    text, feeds = random_program(seed)
    agree(text, feeds, {})
