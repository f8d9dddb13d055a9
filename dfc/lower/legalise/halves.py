"""bf16 and f16, which are 16 bits in memory and f32 in registers: widening is exact, narrowing rounds to nearest even.

Guarantees that a NaN stays one (quiet), and one rounding from f64 too.
"""

from __future__ import annotations

from functools import cache

from dfc.ir.dtypes import BF16, F16, F32, F64, I32, U16, U32, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, call, function

HALVES = (F16, BF16)


@cache
def load_function(dtype: DType) -> Function:
    """The 16 bits (u16) of an element as the f32 to compute with."""
    return function(f"{dtype}_load", _load_f16 if dtype == F16 else _load_bf16, U16)


@cache
def store_function(dtype: DType) -> Function:
    """An f32 as the 16 bits of the nearest element."""
    return function(f"{dtype}_store", _store_f16 if dtype == F16 else _store_bf16, F32)


@cache
def round_function(dtype: DType) -> Function:
    """An f32 as it reads after it was stored."""
    return function(f"{dtype}_round", lambda x: rounded(x, dtype), F32)


def rounded(x: Term, dtype: DType) -> Term:
    """A computed value (f32) as memory of this type holds it."""
    return call(load_function(dtype), call(store_function(dtype), x)[0])[0] if dtype in HALVES else x


def _load_bf16(x: Term) -> Term:
    return (x.to(U32) << 16).to(I32).bits()


def _store_bf16(x: Term) -> Term:
    """On the bits: half a unit, less one where the number is even, is added."""
    bits = x.bits().to(U32)
    odd = (bits >> 16) & 1
    return (x.is_nan().choose(bits | 0x400000, bits + (odd + 0x7FFF)) >> 16).to(U16)


def _load_f16(x: Term) -> Term:
    """Exponent and fraction moved into place and rescaled by a product, which is exact and right for subnormals too."""
    wide = x.to(U32)
    magnitude = (wide & 0x7FFF) << 13
    scaled = (magnitude.to(I32).bits() * 2.0**112).bits().to(U32)
    bits = magnitude.at_least(0x7C00 << 13).choose(magnitude | 0x7F800000, scaled)
    return (bits | ((wide & 0x8000) << 16)).to(I32).bits()


def _store_f16(x: Term) -> Term:
    """Normal numbers round on the bits; subnormal ones by adding a number whose last place is theirs."""
    bits = x.bits().to(U32)
    sign, magnitude = (bits & 0x80000000) >> 16, bits & 0x7FFFFFFF
    odd = (magnitude >> 13) & 1
    normal = (magnitude + (0xFFF - (112 << 23)) + odd) >> 13
    small = (magnitude.to(I32).bits() + 0.5).bits().to(U32) - 0x3F000000
    finite = magnitude.less(113 << 23).choose(small, normal)
    limited = magnitude.at_least(0x477FF000).choose(0x7C00, finite)
    nan = ((magnitude >> 13) | 0x7E00) & 0x7FFF
    return (magnitude.greater(0x7F800000).choose(nan, limited) | sign).to(U16)


def single_rounded_to_odd(x: Term) -> Term:
    """f64 as the f32 from which rounding again to half is as rounding once: where inexact, of the two neighbours the
    one whose last bit is set (Boldo and Melquiond 2008)."""
    single = x.to(F32)
    back = single.to(F64)
    bits = single.bits()
    truncated = abs(back).greater(abs(x)).choose(bits - 1, bits)
    inexact = back.less(x) | back.greater(x)
    return inexact.choose(truncated | 1, bits).bits()
