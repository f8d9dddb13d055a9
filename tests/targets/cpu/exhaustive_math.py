"""All 2^32 inputs of the unary single-precision functions: run by hand, some seconds each.

    PYTHONPATH=targets python -m tests.targets.cpu.exhaustive_math [NAME ...]

The reference is the same function in double precision, which the tests compare with extended precision. Both run in one
generated loop that keeps, per lane, the largest distance seen and where. Exit code 1 when a stated bound is exceeded.
"""

import ctypes
import sys
import time

import numpy as np

from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64, vector_type
from tests.support.cpu_code import aligned, host, load
from tests.support.cpu_math import SINGLE_BOUNDS, scalar_function

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
    "erf",
    "sin",
    "cos",
    "rsqrt",
    "sqrt",
]
LANES = 16
CHUNK = 1 << 26


def build(name: str):
    """`run(start, count, worst, where)`: inputs start .. start + count - 1; vectors of doubles and of bit patterns."""
    module = ModuleText(host().triple)
    formals = [
        Parameter("i64", "start"),
        Parameter("i64", "count"),
        Parameter("ptr", "worst"),
        Parameter("ptr", "where"),
    ]
    f = module.function("run", "void", formals, linkage="external")
    start, count, worst_place, where_place = f.arguments
    functions, doubles, bits = KernelFunctions(module, host()), vector_type(LANES, "double"), vector_type(LANES, "i32")
    lanes = f.lane_numbers(LANES, "i32")
    before = f.load(doubles, worst_place), f.load(bits, where_place)
    with f.counted_loop(i64(0), count, LANES) as loop:
        worst, where = loop.carry(before[0]), loop.carry(before[1])
        first = f.cast("trunc", f.add(start, loop.index), "i32")
        pattern = f.add(f.splat(first, LANES), lanes)
        x = f.cast("bitcast", pattern, vector_type(LANES, "float"))
        result = functions.apply(f, scalar_function(name, "float"), x)[0]
        exact = functions.apply(f, scalar_function(name, "double"), f.cast("fpext", x, doubles))[0]
        distance = distance_in_ulp(f, result, exact)
        worse = f.fcmp("ogt", distance, worst)
        loop.next(worst, f.select(worse, distance, worst))
        loop.next(where, f.select(worse, pattern, where))
    f.store(loop.result(worst), worst_place)
    f.store(loop.result(where), where_place)
    f.ret()
    module.add(f)
    return load(module).function("run", None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def distance_in_ulp(f: FunctionText, result: Value, exact: Value) -> Value:
    """|result - exact| in units of the last place of a single at `exact`; infinity counts as 2^128, NaN wants NaN."""
    kind, whole = exact.type, vector_type(LANES, "i64")
    limit = constant(kind, 2.0**128)

    def bounded(x: Value) -> Value:
        size = f.intrinsic("fabs", x)
        return f.select(f.fcmp("ogt", size, limit), f.intrinsic("copysign", limit, x), x)

    exact, wide = bounded(exact), bounded(f.cast("fpext", result, kind))
    difference = f.intrinsic("fabs", f.fsub(wide, exact))
    biased = f.bit_and(f.lshr(f.cast("bitcast", exact, whole), constant(whole, 52)), constant(whole, 2047))
    exponent = f.maximum(biased, constant(whole, 1023 - 126))
    below_overflow = f.minimum(exponent, constant(whole, 1023 + 127))
    ulp = f.cast("bitcast", f.shl(f.sub(below_overflow, constant(whole, 23)), constant(whole, 52)), kind)
    distance = f.fdiv(difference, ulp)
    one_nan = f.bit_xor(f.fcmp("uno", wide, wide), f.fcmp("uno", exact, exact))
    distance = f.select(one_nan, constant(kind, float("inf")), distance)
    same = f.fcmp("oeq", f.cast("fptrunc", exact, result.type), result)
    return f.select(same, constant(kind, 0.0), distance)


def worst_of(name: str) -> tuple[float, np.float32]:
    run = build(name)
    worst, where = aligned((LANES,), "f8", 128), aligned((LANES,), "u4")
    for start in range(0, 1 << 32, CHUNK):
        run(start, CHUNK, worst.ctypes.data, where.ctypes.data)
    lane = int(np.argmax(worst))
    return float(worst[lane]), where[lane : lane + 1].view(np.float32)[0]


def main() -> int:
    exceeded = False
    for name in sys.argv[1:] or NAMES:
        began = time.monotonic()
        worst, where = worst_of(name)
        exceeded |= worst > SINGLE_BOUNDS[name]
        print(f"{name:8} at most {worst:.3f} ULP, at {where!r} ({time.monotonic() - began:.0f} s)", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
