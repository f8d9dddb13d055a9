"""The names in which kernel text is written: primitives, and functions of them as text of the same kind.

Kernel text and the functions below are Python of a small kind: local variables, `for` over `range`, `while`, `if`, and
calls of these names. Every arithmetic result is wrapped in its type (`f32(x + y)`, `u64(a ^ b)`), which rounds or
wraps it; i64 and u64 are not mixed.

- Types (also as casts): `boolean f32 f64 i8 i16 i32 i64 u8 u16 u32 u64`; constants `inf nan` (f64).
- Where: `block_index() block_count() thread() block_size()` (i64); `barrier()` of the block,
  `barrier_any(flag)` (of any lane), `warp_barrier()`, `fence()` of memory.
- Floats T in f32, f64: `T_abs sign exp log log1p sqrt rsqrt sin cos tanh erf floor ceil round trunc is_finite`, of two
  `T_pow minimum maximum floordiv mod copysign`, `T_fma(a, b, c)`, `T_bits(x)`, `T_from_bits(i)`.
- Indices, i64 and not negative: `quotient remainder`, and `quotient32 remainder32` of what fits into 31 bits.
- Integers T: `T_neg abs sign`, of two `T_minimum maximum floordiv mod pow shift_left shift_right`.
- Casts: `to_i32_from_f32(x)` and so on, from every type that a register holds to every element type.
- Halves, held as f32: `f16_load(u16)`, `f16_store(f32)`, `f16_round(f32)`, the same for bf16.
- Memory: `a[i]`; 16 bytes at an index that is aligned so: `load4_f32(p, i)` gives a tuple, `store4_f32(p, i, a, b, c,
  d)`; 4 of f32 i32 u32, 2 of f64 i64 u64, 8 of i16 u16, 16 of i8 u8; narrower ones likewise (`load4_u8`).
  `shared_T(count)`: memory of the block, `count` a literal. `T_pointer(bytes, offset)`: part of a u8 pointer as
  elements. `atomic_add_u32(p, i, value)`, `.._i64`. `load8_u16_words(p, i)`, `store8_u16_words`: eight halves as four
  u32.
- Lanes: `shuffle_xor_T(value, mask)`, `shuffle_T(value, lane)`, for all types; every lane of the warp takes part.
  `T_warp_add mul minimum maximum and or (x, mask)`: lanes whose numbers differ in bits up to that of `mask` fold.
- Tensor cores, by a whole warp of 32: `matrix_load(p, i)`, `matrix_load_turned`, `matrix_multiply_f16`, `.._bf16`,
  `.._tf32`, `tf32_bits(x)`; see `tensor`.
- Searches: `T_above(x, i, y, j)`, `T_below`: whether x at index i is to be kept rather than y at index j.
- `report(error, site, value0, value1)`: error[0..2] = site + 1, value0, value1, unless a fault is there already.
- Random numbers: `philox_uniform_T`, `philox_normal_T` (element i64, key0, key1, draw u64) for f16 bf16 f32 f64.

Here is the text of the functions: those of `dfc.lower.legalise`, and exchanges between lanes. The primitives are code
of the device in `device`. Guarantees that functions depend on the names of primitives alone, so that the same
text runs wherever these names have a meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product

from dfc.ir.dtypes import ALL, BOOL, F32, F64
from dfc.kernels.body import FUNCTIONS, UNARY
from dfc.kernels.functions import Function
from dfc.kernels.primitives import is_register_type
from dfc.lower.legalise.elementary import ELEMENTARY
from dfc.lower.legalise.halves import HALVES, load_function, round_function, store_function
from dfc.lower.legalise.meaning import defined, meaning, search
from dfc.lower.legalise.random import random_function
from dfc_target_cuda.kernels.prelude.device_functions import device_text
from dfc_target_cuda.kernels.prelude.text_functions import parse
from dfc_target_cuda.kernels.prelude_reductions import fold_text

FILE = "<cuda prelude>"
_REGISTERS = [dtype for dtype in ALL.values() if is_register_type(dtype)]


@cache
def text() -> str:
    """The prelude's own functions; later ones use earlier ones."""
    return device_text(_functions()) + fold_text()


def _functions() -> Iterator[Function]:
    """What kernels of any type may call."""
    for kind, name in product(_REGISTERS, sorted(FUNCTIONS)):
        if name in defined(kind) or (kind.is_float and name in ELEMENTARY):
            yield meaning(name, [kind] * (1 if name in UNARY else 2), BOOL if name == "is_finite" else kind)
    for source, target in product(_REGISTERS, ALL.values()):
        if not target.is_complex:
            yield meaning("cast", [source], target)
    for kind, largest in product(_REGISTERS, (True, False)):
        yield search(kind, largest=largest)
    for half in HALVES:
        yield from (load_function(half), store_function(half), round_function(half))
    for distribution, dtype in product(("uniform", "normal"), (*HALVES, F32, F64)):
        yield random_function(distribution, dtype)


@cache
def definitions() -> dict[str, ast.FunctionDef]:
    """They by name."""
    return {definition.name: definition for definition in parse(text())}
