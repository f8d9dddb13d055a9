"""All 2^32 inputs of the unary single-precision functions against double precision: run by hand, minutes each.

python -m tests.targets.cpu.exhaustive_math [NAME ...]
"""

import sys
import time

import numpy as np

from tests.support.cpu_code import host
from tests.support.cpu_math import ArrayMath, reference, ulp_distance

NAMES = [
    "exp",
    "exp2",
    "expm1",
    "sigmoid",
    "tanh",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "rsqrt",
    "sqrt",
    "erf",
]
CHUNK = 1 << 24


def worst_of(name: str) -> tuple[float, np.float32]:
    function = ArrayMath(host(), name, "float", host().lanes(32))
    worst, where = 0.0, np.float32(0)
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        distance = ulp_distance(function(x), reference(name, x.astype(np.float64)))
        at = int(np.argmax(distance))
        if distance[at] > worst:
            worst, where = float(distance[at]), x[at]
    return worst, where


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        began = time.monotonic()
        worst, where = worst_of(name)
        print(f"{name:8} at most {worst:.3f} ULP, at {where!r} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
