"""Names that an author knows from elsewhere: from NumPy and Python, or from a module of `std` that is not imported."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STD = Path(__file__).parent.parent / "std"
_DECLARED = re.compile(r"^(?:fn|proc|block|const|type) ([A-Za-z]\w*)", re.MULTILINE)

FOREIGN_NAMES = {
    "print": 'write `debug.print("{}", x)`',
    "len": "the size of an axis is a dimension: declare it, as in `fn f[N](x: f32[N])`, and use `N`",
    "np": "functions need no prefix: write `exp(x)`",
    "self": "inside a block its members are used by their names",
    "None": "there is no missing value in .dfg",
    "True": "write `true`",
    "False": "write `false`",
    "add": "write `a + b`",
    "power": "write `a ** b`",
    "pow": "write `a ** b`",
    "T": "write `transpose(x)`",
    "absolute": "write `abs(x)`",
    "amax": "write `max(x)`",
    "amin": "write `min(x)`",
    "arange": "write `iota(i64[N])`, which counts from 0",
    "arctan2": "write `atan2(y, x)`",
    "clip": "write `clamp(x, low, high)`",
    "det": "write `determinant(a)`",
    "divide": "write `a / b`",
    "expand_dims": "write `x[:, new]`",
    "flatten": "write `reshape(x, [...])`",
    "flip": "write `reverse(x, axis = 0)`",
    "floor_divide": "write `a // b`",
    "inv": "write `inverse(a)`, or better `solve(a, b)`",
    "isinf": "write `is_infinite(x)`",
    "isnan": "write `is_nan(x)`",
    "logical_and": "write `a and b`",
    "logical_not": "write `not a`",
    "logical_or": "write `a or b`",
    "mod": "write `a % b`",
    "not_equal": "write `a != b`",
    "ravel": "write `reshape(x, [...])`",
    "reduce_mean": "write `mean(x)`",
    "reduce_sum": "write `sum(x)`",
    "remainder": "write `a % b`",
    "shape": "the size of an axis is a dimension: declare it, as in `fn f[N](x: f32[N])`, and use `N`",
    "size": "the size of an axis is a dimension: declare it, as in `fn f[N](x: f32[N])`, and use `N`",
    "subtract": "write `a - b`",
    "std": "write `deviation(x)`",
    "swish": "write `silu(x)`",
    "take": "write `x[ids]`",
    "true_divide": "write `a / b`",
}


def known_elsewhere(name: str) -> str:
    """What to write for a name that is not known here, or the empty string."""
    if name in FOREIGN_NAMES:
        return FOREIGN_NAMES[name]
    modules = _library().get(name, ())
    return f"write `from {modules[0]} import {name}` at the top of the file" if modules else ""


@cache
def _library() -> dict[str, tuple[str, ...]]:
    """The modules of `std` that declare a name."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(STD.glob("*.dfg")):
        for name in _DECLARED.findall(path.read_text(encoding="utf-8")):
            found[name] = (*found.get(name, ()), f"std.{path.stem}")
    return found
