"""Philox against its published test vectors, and the documented use of its words."""

import numpy as np
import pytest

from dfc.ir import dtypes
from dfc.ops.creation.philox import initial_state, numbers, philox, stream_hash, stream_key

VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def words(block: int, draw: int, key: tuple[int, int]) -> list[int]:
    """One block by plain integers, as the documentation says."""
    counter = [block & 0xFFFFFFFF, block >> 32, draw & 0xFFFFFFFF, draw >> 32]
    combined = key[0] ^ key[1]
    k0, k1 = combined & 0xFFFFFFFF, combined >> 32
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            (second >> 32) ^ counter[1] ^ k0,
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ k1,
            first & 0xFFFFFFFF,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return counter


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_vectors(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    got = philox([np.array([c], np.uint64) for c in counter], key)
    assert tuple(int(word[0]) for word in got) == expected


KEY = stream_key(7, "net.w")
DRAW = (5 << 32) + 3


def test_uniform_f32_takes_one_word_an_element() -> None:
    got = numbers("uniform", dtypes.F32, (3, 3), KEY, DRAW).reshape(-1)
    expected = [(words(e // 4, DRAW, KEY)[e % 4] >> 8) * 2.0**-24 for e in range(9)]
    assert got.dtype == np.float32
    assert got.tolist() == expected


def test_uniform_f64_takes_two_words_an_element() -> None:
    block = [words(e // 2, DRAW, KEY) for e in range(5)]
    expected = [((b[2 * (e % 2)] | b[2 * (e % 2) + 1] << 32) >> 11) * 2.0**-53 for e, b in enumerate(block)]
    assert numbers("uniform", dtypes.F64, (5,), KEY, DRAW).tolist() == expected


@pytest.mark.parametrize(("dtype", "bits"), [(dtypes.F16, 11), (dtypes.BF16, 8)])
def test_narrow_uniforms_are_exact(dtype: dtypes.DType, bits: int) -> None:
    got = numbers("uniform", dtype, (4,), KEY).astype(np.float64)
    assert got.tolist() == [(w >> (32 - bits)) * 2.0**-bits for w in words(0, 0, KEY)]
    assert (got < 1).all()


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64])
def test_normals_follow_box_and_muller(dtype: dtypes.DType) -> None:
    got = numbers("normal", dtype, (5,), KEY, 2).astype(np.float64)
    expected = []
    for e in range(5):
        if dtype is dtypes.F32:
            w = words(e // 4, 2, KEY)[e % 4 // 2 * 2 :]
            u, t = ((w[0] >> 8) + 1) * 2.0**-24, (w[1] >> 8) * 2.0**-24
        else:
            w = words(e // 2, 2, KEY)
            u, t = (((w[0] | w[1] << 32) >> 11) + 1) * 2.0**-53, ((w[2] | w[3] << 32) >> 11) * 2.0**-53
        turn = (np.cos if e % 2 == 0 else np.sin)(2 * np.pi * t)
        expected.append(np.sqrt(-2 * np.log(u)) * turn)
    np.testing.assert_allclose(got, expected, rtol=2e-6 if dtype is dtypes.F32 else 1e-14)


def test_distributions_have_their_moments() -> None:
    uniform = numbers("uniform", dtypes.F32, (100_000,), KEY).astype(np.float64)
    normal = numbers("normal", dtypes.F32, (100_000,), KEY).astype(np.float64)
    assert abs(uniform.mean() - 0.5) < 0.005
    assert abs(uniform.var() - 1 / 12) < 0.002
    assert abs(normal.mean()) < 0.015
    assert abs(normal.var() - 1) < 0.02


def test_streams_draws_and_seeds_differ_and_prefixes_agree() -> None:
    base = numbers("uniform", dtypes.F32, (8,), KEY)
    assert (base[:3] == numbers("uniform", dtypes.F32, (3,), KEY)).all()
    for key, draw in [(stream_key(8, "net.w"), 0), (stream_key(7, "net.b"), 0), (KEY, 1)]:
        assert (base != numbers("uniform", dtypes.F32, (8,), key, draw)).any()


def test_no_elements() -> None:
    assert numbers("normal", dtypes.F64, (0, 3), KEY).shape == (0, 3)


def test_hash_and_state_never_change() -> None:
    assert stream_hash("net.w") == 0xCE5C8D684FC6B514
    state = initial_state(-1, "dice")
    assert state.tolist() == [2**64 - 1, stream_hash("dice"), 0, 0]
