"""Kernel text: a kernel as one function of one thread, in the names that a machine of threads in blocks implements.

In: layouts of `dfc.lower.threads`. Out: lines of a `KernelText`. Read first: `kernel_text`, then `map` and `body`.

Kernel text is Python of a small kind (a target checks its grammar): local variables, `while`, `if`, and calls of
these names. Each stands for one type, so nothing is found out about types. Operators are for indices alone, i64 that
stay within their type; values are computed by calls.

- Types, as casts: `boolean f32 f64 i8 i16 i32 i64 u8 u16 u32 u64`; constants `inf nan` (f64).
- Where: `block_index() block_count() thread() block_size()` (i64); `barrier()` of the block,
  `barrier_any(flag)` (of any lane), `warp_barrier()`, `fence()` of memory.
- Primitives of `dfc.kernels.primitives`: `T_add(x, y)`, `T_select(condition, x, y)`, `T_less(x, y)`, `boolean_not(x)`
  and so on; `both(x, y)` of conditions. `f32_bits(x)`, `f32_from_bits(i)`, the same for f64.
- Kernel functions of `dfc.lower.legalise.library` by their names: `f32_exp(x)`, `i32_floordiv(x, y)`,
  `to_i32_from_f32(x)`, `bf16_store(x)`, `f32_above(x, i, y, j)`, `philox_uniform_f32(...)`.
- Indices: `min max`; of those that are not negative `quotient remainder`, and `quotient32 remainder32` of what fits
  into 31 bits.
- Memory: `a[i]`; `T_load_if(p, i, condition, otherwise)`, `T_store_if(p, i, value, condition)`; 16 bytes at an index
  that is aligned so: `load4_f32(p, i)` gives a tuple, `store4_f32(p, i, a, b, c, d)`; 4 of f32 i32 u32, 2 of f64 i64
  u64, 8 of i16 u16, 16 of i8 u8; narrower ones likewise (`load4_u8`). `shared_T(count)`: memory of the block, `count` a
  number. `T_pointer(bytes, offset)`: part of a u8 pointer as elements. `atomic_add_u32(p, i, value)`, `.._i64`.
  `load8_u16_words(p, i)`, `store8_u16_words`: eight halves as four u32.
- Lanes: `shuffle_xor_T(value, mask)`, `shuffle_T(value, lane)`, for all types; every lane of the warp takes part.
  `T_warp_add mul minimum maximum and or (x, mask)`: lanes whose numbers differ in bits up to that of `mask` fold.
- Tensor cores, by a whole warp of 32: `matrix_load(p, i)`, `matrix_load_turned`, `matrix_multiply_f16`, `.._bf16`,
  `.._tf32`, `tf32_bits(x)`.
- `report(error, site, value0, value1)`: error[0..2] = site + 1, value0, value1, unless a fault is there already.
"""
