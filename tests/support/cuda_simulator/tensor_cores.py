"""Products of small matrices by a whole warp, simulated: the names of `prelude/tensor` in plain Python.

Guarantees the layouts of the device. Each sum is made in f64 and rounded once; tensor cores round (and cut) after
several terms, so that the device's last bits differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.cuda_simulator import simulation
from tests.support.cuda_simulator.simulation import Steps

_WARP = 32
_HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def tensor_functions() -> dict[str, Any]:
    functions: dict[str, Any] = {"matrix_load": _load(turned=False), "matrix_load_turned": _load(turned=True)}
    for name, kind in _HALVES.items():
        functions[f"matrix_multiply_{name}"] = _multiply(_halves(kind), 2)
    functions["matrix_multiply_tf32"] = _multiply(_single, 1)
    return functions | {"tf32_bits": _rounded}


def _load(*, turned: bool) -> Callable[[Any, int], Steps]:
    def load(memory: Any, index: int) -> Steps:
        if index % 8:
            raise IndexError(f"a row of a matrix begins at element {index}, which is not a multiple of 8")
        lane, starts = yield from simulation.gather(index, _WARP)
        row, column = lane // 4, lane % 4 * 2
        words: list[int] = []
        for matrix in range(4):
            positions = [(column + i, row) if turned else (row, column + i) for i in range(2)]
            low, high = (int(memory[starts[8 * matrix + r] + c]) for r, c in positions)
            words.append(low | high << 16)
        return tuple(words)

    return load


def _multiply(numbers: Callable[[int], list[float]], together: int) -> Callable[..., Steps]:
    """`together` numbers lie in a word."""

    def multiply(*arguments: Any) -> Steps:
        lane, words = yield from simulation.gather(arguments[:6], _WARP)
        a, b = _factors(tuple(words), numbers, together)
        row, column = lane // 4, lane % 4 * 2
        sums: list[np.float32] = []
        for number, before in enumerate(arguments[6:]):
            i, j = row + 8 * (number // 2), column + number % 2
            sums.append(np.float32(np.float64(before) + a[i] @ b[:, j]))
        return tuple(sums)

    return multiply


@lru_cache(maxsize=16)  # all lanes of a warp ask for the same
def _factors(
    words: tuple[Sequence[int], ...], numbers: Callable[[int], list[float]], together: int
) -> tuple[np.ndarray, np.ndarray]:
    """The 16 x 8 t and 8 t x 8 numbers that the words of all lanes hold."""
    a, b = np.zeros((16, 8 * together)), np.zeros((8 * together, 8))
    for lane, held in enumerate(words):
        row, column = lane // 4, lane % 4 * together
        for word in range(4):
            start = column + 4 * together * (word // 2)
            a[row + 8 * (word % 2), start : start + together] = numbers(held[word])
        for word in range(2):
            start = column + 4 * together * word
            b[start : start + together, row] = numbers(held[4 + word])
    return a, b


def _halves(kind: np.dtype[Any]) -> Callable[[int], list[float]]:
    return lambda word: [float(one) for one in np.array([word & 0xFFFF, word >> 16], np.uint16).view(kind)]


def _single(word: int) -> list[float]:
    return [float(np.uint32(word & 0xFFFFE000).view(np.float32))]


def _rounded(value: Any) -> int:
    """To nearest, ties away from zero; infinities and NaN stay."""
    bits = int(np.float32(value).view(np.uint32))
    if bits & 0x7F800000 == 0x7F800000:
        return bits
    return (bits + 0x1000) & 0xFFFFE000
