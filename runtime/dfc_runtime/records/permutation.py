"""The keyed permutation pi(seed, pass) of 0 .. n-1: where a shuffled stream finds the record of a position.

Exact, so that native code can compute the same bits. All numbers are unsigned 64-bit, sums wrap, 1 <= n <= 2^62:

    b         the smallest number, 1 or more, with 4^b >= n; half = 2^b - 1
    keys      K[2j] = w0 | w1 << 32, K[2j+1] = w2 | w3 << 32 for j = 0 .. 5, where w0 .. w3 are the words of
              Philox 4x32-10 with the key (low32(seed), high32(seed)) and the counter
              (low32(pass), high32(pass), j, 0x6D726570)
    mix(z)    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9; z = (z ^ z >> 27) * 0x94D049BB133111EB; z ^ z >> 31
    round i   (left, right) -> (right, left ^ (mix(right + K[i]) & half)), for i = 0 .. 11
    E(x)      left = x >> b, right = x & half, twelve rounds, left << b | right
    W(p)      E(p), E(E(p)), .. : the first that is below n
    pi(p)     W(p), but 0 for 1 and 1 for 0 if n > 1 and w0 of j = 6 is odd

E is a Feistel network, a bijection of 0 .. 4^b - 1 whatever the rounds compute, and walking along its cycles back below
n makes one of 0 .. n-1 of it (J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002); 4^b < 4 n, so a
walk takes fewer than four steps on average. Of 16 or more numbers a Feistel network makes even permutations only; the
exchange at the end makes the odd ones as likely. Up to n = 7, orders over 200,000 keys are as even as chance has them
from twelve rounds on, and not with eight. `mix` is the finaliser of SplitMix64 (G. Steele, D. Lea and C. Flood, 2014).
Memory does not depend on n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.philox import philox_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"

FEISTEL_STEPS = 12
LARGEST = 1 << 62
_TAG = 0x6D726570
_MASK64 = (1 << 64) - 1
_LOW = 0xFFFFFFFF
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class Permutation:
    """pi(seed, pass) of 0 .. count - 1."""

    count: int
    bits: int
    keys: tuple[int, ...]
    is_odd: bool
    """Whether 0 and 1 are exchanged at the end."""

    def one(self, position: int) -> int:
        """pi(position), in plain numbers; `IndexError` outside of 0 .. count - 1."""
        if not 0 <= position < self.count:
            raise IndexError(position)
        number = self._step(position)
        while number >= self.count:
            number = self._step(number)
        return number ^ 1 if self.is_odd and number < 2 else number

    def many(self, positions: Numbers) -> Numbers:
        """pi of each position, i64 of the same shape; `IndexError` if one is outside of 0 .. count - 1."""
        flat = positions.reshape(-1)
        if len(flat) and (int(flat.min()) < 0 or int(flat.max()) >= self.count):
            raise IndexError("a position outside of the permutation")
        numbers = self._steps(flat.astype(np.uint64))
        walking = np.flatnonzero(numbers >= np.uint64(self.count))
        while len(walking):
            numbers[walking] = self._steps(numbers[walking])
            walking = walking[numbers[walking] >= np.uint64(self.count)]
        if self.is_odd:
            numbers ^= (numbers < np.uint64(2)).astype(np.uint64)
        return numbers.astype(np.int64).reshape(positions.shape)

    def _step(self, number: int) -> int:
        half = (1 << self.bits) - 1
        left, right = number >> self.bits, number & half
        for key in self.keys:
            left, right = right, left ^ (_mix((right + key) & _MASK64) & half)
        return left << self.bits | right

    def _steps(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        bits, half = np.uint64(self.bits), np.uint64((1 << self.bits) - 1)
        left, right = numbers >> bits, numbers & half
        for key in self.keys:
            mixed = right + np.uint64(key)
            for shift, factor in ((30, _FIRST), (27, _SECOND)):
                mixed ^= mixed >> np.uint64(shift)
                mixed *= np.uint64(factor)
            mixed ^= mixed >> np.uint64(31)
            left, right = right, left ^ (mixed & half)
        return left << bits | right


def permutation(count: int, seed: int, pass_: int) -> Permutation:
    """pi(seed, pass) of 0 .. count - 1; seed and pass are taken modulo 2^64. `ValueError` above 2^62."""
    if not 0 <= count <= LARGEST:
        raise ValueError(f"a permutation of {count} numbers")
    bits = max(((count - 1).bit_length() + 1) // 2, 1)
    key, number = (seed & _LOW, seed >> 32 & _LOW), (pass_ & _LOW, pass_ >> 32 & _LOW)
    keys: list[int] = []
    for block in range(FEISTEL_STEPS // 2):
        words = philox_words((*number, block, _TAG), key)
        keys += [words[0] | words[1] << 32, words[2] | words[3] << 32]
    last = philox_words((*number, FEISTEL_STEPS // 2, _TAG), key)[0]
    return Permutation(count, bits, tuple(keys), is_odd=count > 1 and bool(last & 1))


def _mix(number: int) -> int:
    number = (number ^ number >> 30) * _FIRST & _MASK64
    number = (number ^ number >> 27) * _SECOND & _MASK64
    return number ^ number >> 31
