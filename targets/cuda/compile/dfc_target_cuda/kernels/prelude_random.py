"""Counter-based random numbers as functions of the prelude: the definition in `dfc.ops.creation.philox`.

Guarantees the same words as the definition, uniform numbers bit-equal to it, and normal numbers bit-equal to those of
the CPU target (the same logarithm, sine and cosine). Numbers of f16 and bf16 come as the f32 that holds them.
"""

import math

_ROUNDS = 10
_ARGUMENTS = "element: i64, key0: u64, key1: u64, draw: u64"


def random_text() -> str:
    """`philox_uniform_T` and `philox_normal_T` (element, key0, key1, draw) for the floating types."""
    narrow = "".join(_uniform_single(name, bits) for name, bits in (("f32", 24), ("f16", 11), ("bf16", 8)))
    return _WORDS + narrow + _NUMBERS + "".join(_normal_of_halves(name) for name in ("f16", "bf16"))


_WORDS = f"""
def philox_words(block: u64, key0: u64, key1: u64, draw: u64) -> (u64, u64, u64, u64):
    key = u64(key0 ^ key1)
    k0 = u64(key & u64(4294967295))
    k1 = u64(key >> u64(32))
    c0 = u64(block & u64(4294967295))
    c1 = u64(block >> u64(32))
    c2 = u64(draw & u64(4294967295))
    c3 = u64(draw >> u64(32))
    for _ in range({_ROUNDS}):
        first = u64(c0 * u64({0xD2511F53}))
        second = u64(c2 * u64({0xCD9E8D57}))
        c0 = u64(u64(u64(second >> u64(32)) ^ c1) ^ k0)
        c1 = u64(second & u64(4294967295))
        c2 = u64(u64(u64(first >> u64(32)) ^ c3) ^ k1)
        c3 = u64(first & u64(4294967295))
        k0 = u64(u64(k0 + u64({0x9E3779B9})) & u64(4294967295))
        k1 = u64(u64(k1 + u64({0xBB67AE85})) & u64(4294967295))
    return c0, c1, c2, c3

def philox_word(element: i64, key0: u64, key1: u64, draw: u64) -> u64:
    number = u64(element)
    w0, w1, w2, w3 = philox_words(u64(number >> u64(2)), key0, key1, draw)
    low = w1 if u64(number & u64(1)) != u64(0) else w0
    high = w3 if u64(number & u64(1)) != u64(0) else w2
    return high if u64(number & u64(2)) != u64(0) else low
"""


def _uniform_single(name: str, bits: int) -> str:
    return f"""
def philox_uniform_{name}({_ARGUMENTS}) -> f32:
    word = philox_word(element, key0, key1, draw)
    return f32(f32(i32(u64(word >> u64({32 - bits})))) * f32({2.0**-bits!r}))
"""


_NUMBERS = f"""
def philox_wide(low: u64, high: u64) -> u64:
    return u64(u64(low | u64(high << u64(32))) >> u64(11))

def philox_uniform_f64({_ARGUMENTS}) -> f64:
    number = u64(element)
    w0, w1, w2, w3 = philox_words(u64(number >> u64(1)), key0, key1, draw)
    odd = u64(number & u64(1)) != u64(0)
    return f64(f64(i64(philox_wide(w2 if odd else w0, w3 if odd else w1))) * f64({2.0**-53!r}))

def philox_normal_f32({_ARGUMENTS}) -> f32:
    number = u64(element)
    w0, w1, w2, w3 = philox_words(u64(number >> u64(2)), key0, key1, draw)
    upper = u64(number & u64(2)) != u64(0)
    first = i32(u64(u64((w2 if upper else w0) >> u64(8)) + u64(1)))
    second = i32(u64((w3 if upper else w1) >> u64(8)))
    radius = f32_sqrt(f32(f32_log(f32(f32(first) * f32({2.0**-24!r}))) * f32(-2.0)))
    angle = f32(f32(f32(second) * f32({2.0**-24!r})) * f32({2 * math.pi!r}))
    return f32(radius * (f32_sin(angle) if u64(number & u64(1)) != u64(0) else f32_cos(angle)))

def philox_normal_f64({_ARGUMENTS}) -> f64:
    number = u64(element)
    w0, w1, w2, w3 = philox_words(u64(number >> u64(1)), key0, key1, draw)
    first = i64(u64(philox_wide(w0, w1) + u64(1)))
    second = i64(philox_wide(w2, w3))
    radius = f64_sqrt(f64(f64_log(f64(f64(first) * f64({2.0**-53!r}))) * f64(-2.0)))
    angle = f64(f64(f64(second) * f64({2.0**-53!r})) * f64({2 * math.pi!r}))
    return f64(radius * (f64_sin(angle) if u64(number & u64(1)) != u64(0) else f64_cos(angle)))
"""


def _normal_of_halves(name: str) -> str:
    return f"""
def philox_normal_{name}({_ARGUMENTS}) -> f32:
    return {name}_round(philox_normal_f32(element, key0, key1, draw))
"""
