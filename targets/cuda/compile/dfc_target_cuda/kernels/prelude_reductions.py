"""Folds between the lanes of a warp as functions of the prelude.

Assumes the primitives of `prelude`. Guarantees that all lanes that exchange have the same afterwards (but for the sign
of a zero that is the minimum or maximum): the steps are the same from both sides.
"""

_INTEGERS = tuple(f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64))
_FLOATS = ("f32", "f64")


def fold_text() -> str:
    """`T_warp_add(x, mask)` and so on: lanes whose numbers differ in bits up to that of `mask` fold their values."""
    parts: list[str] = []
    for t in (*_INTEGERS, *_FLOATS):
        parts += [_fold(t, name, f"{t}(x {sign} other)") for name, sign in (("add", "+"), ("mul", "*"))]
        parts += [_fold(t, name, f"{t}_{name}(other, x)") for name in ("minimum", "maximum")]
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
