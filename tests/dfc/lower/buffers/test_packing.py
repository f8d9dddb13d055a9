"""Storages in the arena without slots: they lie apart for all sizes, and tight for typical ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from dfc.ir.dims import Dim, Symbol, ceil_divide, dim
from dfc.ir.dtypes import F32
from dfc.kernels.program import BufferRole
from dfc.lower.buffers import packing
from dfc.lower.buffers.liveness import Life, Lifetimes
from dfc.lower.buffers.packing import ALIGNMENT, pack
from dfc.lower.buffers.slots import byte_size, plan
from dfc.lower.storage import Storage

B, C = Symbol("B"), Symbol("C")


def storage(name: str, *shape: int | Symbol) -> Storage:
    return Storage(BufferRole.ARENA, F32, tuple(map(dim, shape)), name)


def test_small_ones_lie_side_by_side_where_a_large_one_was():
    large, small, beside, over = storage("l", B, 512), storage("s", B, 256), storage("b", B, 256), storage("o", B, 512)
    lives = {large: Life(0, 1, ()), over: Life(1, 3, ()), small: Life(2, 3, ()), beside: Life(2, 3, ())}
    arena = plan(Lifetimes(lives), {})
    assert arena.size == arena.largest_live == dim(B) * 4096
    assert {arena.offsets[small], arena.offsets[beside]} == {arena.offsets[large], arena.offsets[large] + dim(B) * 1024}


def lives_by_chance(seed: int) -> dict[Storage, Life]:
    random = np.random.default_rng(seed)
    lives: dict[Storage, Life] = {}
    for number in range(60):
        first, kind = int(random.integers(40)), number % 4
        sizes = [int(random.integers(1, 3000))], [B, int(random.integers(1, 90))], [B, C], [C, 7, B, 3]
        lives[storage(f"s{number}", *sizes[kind])] = Life(first, first + int(random.integers(9)), ())
    return lives


def require_apart(lives: Mapping[Storage, Life], offsets: Mapping[Storage, Dim], total: Dim) -> None:
    for sizes in ({B: 1, C: 1}, {B: 64, C: 64}, {B: 3, C: 1000}, {B: 1000, C: 2}, {B: 0, C: 5}):
        spans = {s: (offsets[s].evaluate(sizes), byte_size(s).evaluate(sizes)) for s in lives}
        assert all(start % ALIGNMENT == 0 and start + size <= total.evaluate(sizes) for start, size in spans.values())
        for a, b in combinations(lives, 2):
            if lives[a].first <= lives[b].last and lives[b].first <= lives[a].last:
                (start, size), (other, length) = spans[a], spans[b]
                assert start + size <= other or other + length <= start


@pytest.mark.parametrize("alternatives", [1, 4])
def test_what_lives_at_one_time_lies_apart_for_all_sizes(alternatives: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing, "MOST_ALTERNATIVES", alternatives)
    for seed in range(6):
        lives = lives_by_chance(seed)
        packed = pack(lives, {s: byte_size(s) for s in lives})
        assert packed is not None, f"seed {seed}"
        require_apart(lives, *packed)


def test_an_offset_is_a_short_formula():
    lives = lives_by_chance(7)
    packed = pack(lives, {s: byte_size(s) for s in lives})
    assert packed is not None
    assert max(str(offset).count("max(") for offset in (*packed[0].values(), packed[1])) < packing.MOST_ALTERNATIVES


def test_sizes_that_cannot_be_compared_stay_in_slots():
    odd = Storage(BufferRole.ARENA, F32, (ceil_divide(dim(B), dim(3)),), "odd")
    assert pack({odd: Life(0, 0, ())}, {odd: byte_size(odd)}) is None
