"""Folds between the lanes of a warp as functions of the prelude.

Assumes the primitives of `prelude`. Guarantees that all lanes that exchange have the same afterwards (but for the sign
of a zero that is the minimum or maximum): the steps are the same from both sides.
"""

_INTEGERS = tuple(f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64))
_FLOATS = ("f32", "f64")


def fold_text() -> str:
    """`T_warp_add(x, mask)` and so on: lanes whose numbers differ in bits up to that of `mask` fold their values.
    `T_warp_prefix_add(x, lane, count)` and so on: each lane has the values of all lanes up to it folded."""
    parts: list[str] = []
    for t in (*_INTEGERS, *_FLOATS):
        parts += [_fold(t, name, f"{t}(x {sign} other)") for name, sign in (("add", "+"), ("mul", "*"))]
        parts += [_fold(t, name, f"{t}_{name}(other, x)") for name in ("minimum", "maximum")]
        parts += [_prefix(t, name, f"{t}(other {sign} x)") for name, sign in (("add", "+"), ("mul", "*"))]
        parts += [_prefix(t, name, f"{t}_{name}(other, x)") for name in ("minimum", "maximum")]
    for t in _INTEGERS:
        parts += [_fold(t, name, f"{t}(x {sign} other)") for name, sign in (("and", "&"), ("or", "|"))]
    parts += [_fold("boolean", name, f"x {name} other") for name in ("and", "or")]
    return "".join(parts)


def _fold(t: str, name: str, step: str) -> str:
    return f"""
def {t}_warp_{name}(x: {t}, mask: i64) -> {t}:
    while mask > 0:
        other = shuffle_xor_{t}(x, mask)
        x = {step}
        mask = mask >> 1
    return x
"""


def _prefix(t: str, name: str, step: str) -> str:
    """Of lanes `lane`, 0 to `count` - 1."""
    return f"""
def {t}_warp_prefix_{name}(x: {t}, lane: i64, count: i64) -> {t}:
    distance = i64(1)
    while distance < count:
        other = shuffle_{t}(x, i64(lane - distance))
        if lane >= distance:
            x = {step}
        distance = i64(distance << i64(1))
    return x
"""
