"""The primitives of the prelude as plain Python, for simulation: integers are Python's, wrapped by the casts.

Assumes that the text runs in a lane of `simulation` or of numba's simulator. Primitives at which lanes meet are
generators. Guarantees IEEE results: f32 values are
NumPy's, a fused multiply-add is the C library's, conversions round once. Out-of-range accesses raise.
"""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dfc.kernels.math_coefficients import TWO_OVER_PI_WORDS
from tests.support.cuda_simulator import simulation, tensor_cores
from tests.support.cuda_simulator.simulation import Steps

_INTEGERS = {f"{kind}{bits}": (kind == "i", bits) for kind in "iu" for bits in (8, 16, 32, 64)}
_FORMATS: dict[str, tuple[Any, Any, Any]] = {
    "f32": (np.float32, np.int32, ctypes.c_float),
    "f64": (np.float64, np.int64, ctypes.c_double),
}
_ELEMENTS = {"f32": 4, "i32": 4, "u32": 4, "f64": 2, "i64": 2, "u64": 2, "i16": 8, "u16": 8, "i8": 16, "u8": 16}
_WORDS = (0, 0, *TWO_OVER_PI_WORDS)
_ATOMIC = threading.Lock()
"""In numba's simulator lanes run at once."""
MEMORY: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    **{name: np.dtype(f"{'int' if signed else 'uint'}{bits}").type for name, (signed, bits) in _INTEGERS.items()},
}


def primitives(warp: int) -> dict[str, Any]:
    """What kernel functions are made of, and names of the prelude that are no arithmetic."""
    names: dict[str, Any] = {name: _wrapping(signed, bits) for name, (signed, bits) in _INTEGERS.items()}
    names |= {"boolean": bool, "f32": _single, "f64": np.float64, "inf": float("inf"), "nan": float("nan")}
    names |= simulation.here() | _floating() | _memory() | tensor_cores.tensor_functions()
    names |= {"mul_high_u64": _mul_high, "leading_zeros_u64": _leading_zeros, "two_over_pi_word": _WORDS.__getitem__}

    names |= {"quotient": _quotient, "quotient32": _quotient, "remainder": _remainder, "remainder32": _remainder}

    def together() -> Steps:
        yield from simulation.exchange(None, warp, lambda lane: lane)

    def other(value: Any, mask: int) -> Steps:
        return (yield from simulation.exchange(value, warp, lambda lane: lane ^ mask))

    def one(value: Any, source: int) -> Steps:
        return (yield from simulation.exchange(value, warp, lambda _: source))

    names["warp_barrier"] = together

    for name in ("boolean", *_FORMATS, *_INTEGERS):
        names |= {f"shuffle_xor_{name}": other, f"shuffle_{name}": one}
    return names


def arithmetic(warp: int, functions: dict[str, Any]) -> dict[str, Any]:
    """The primitive instructions that kernel text calls by type, and folds between lanes in terms of `functions`."""
    names: dict[str, Any] = {"both": lambda x, y: x and y}
    for name, kind in (("boolean", bool), *((name, functions[name]) for name in MEMORY)):
        if name != "boolean":
            names |= {f"{name}_{one}": _cast(step, kind) for one, step in _STEPS.items()}
            names |= {f"{name}_{one}": step for one, step in _ORDERS.items()}
        if name in _FORMATS:
            names |= {f"{name}_div": np.divide, f"{name}_neg": operator.neg}
        else:
            names |= {f"{name}_{one}": _cast(step, kind) for one, step in _LOGIC.items()}
            names[f"{name}_not"] = operator.not_ if name == "boolean" else _cast(operator.invert, kind)
        names |= {f"{name}_equal": operator.eq, f"{name}_not_equal": operator.ne, f"{name}_select": _select}
    for name in ("boolean", *MEMORY):
        for one in ("add", "mul", "minimum", "maximum", "and", "or"):
            step = names.get(f"{name}_{one}", functions.get(f"{name}_{one}"))
            if step is not None:
                names[f"{name}_warp_{one}"] = _fold(step, warp, swapped=one in ("minimum", "maximum"))
    return names


_STEPS: dict[str, Any] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_LOGIC: dict[str, Any] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_ORDERS: dict[str, Any] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def _cast(step: Callable[..., Any], kind: Callable[[Any], Any]) -> Callable[..., Any]:
    if step is operator.invert:
        return lambda x: kind(step(x))
    return lambda x, y: kind(step(x, y))


def _select(condition: bool, x: Any, y: Any) -> Any:
    return x if condition else y


def _fold(step: Callable[[Any, Any], Any], warp: int, *, swapped: bool) -> Callable[[Any, int], Steps]:
    def fold(kept: Any, mask: int) -> Steps:
        while mask > 0:
            other = yield from simulation.exchange(kept, warp, lambda lane, mask=mask: lane ^ mask)
            kept = step(other, kept) if swapped else step(kept, other)
            mask //= 2
        return kept

    return fold


def _mul_high(a: int, b: int) -> int:
    return (a * b) >> 64


def _leading_zeros(x: int) -> int:
    return 64 - int(x).bit_length()


def _wrapping(signed: bool, bits: int) -> Callable[[Any], int]:
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    if signed:
        return lambda value: (int(value) + sign & mask) - sign
    return lambda value: int(value) & mask


def _quotient(a: int, b: int) -> int:
    return int(a) // int(b)


def _remainder(a: int, b: int) -> int:
    return int(a) % int(b)


def _single(value: Any) -> np.float32:
    """Integers are rounded once, not by way of f64."""
    if type(value) is np.float32:  # which most are
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return (np.int64 if value < 1 << 63 else np.uint64)(value).astype(np.float32)
    return np.float32(value)


def _floating() -> dict[str, Any]:
    functions: dict[str, Any] = {}
    library = ctypes.CDLL(None)
    for name, (real, integer, foreign) in _FORMATS.items():
        for function, known in (("abs", np.abs), ("sqrt", np.sqrt), ("floor", np.floor), ("ceil", np.ceil)):
            functions[f"{name}_{function}"] = known
        functions |= {f"{name}_trunc": np.trunc, f"{name}_round": np.rint, f"{name}_copysign": np.copysign}
        functions[f"{name}_bits"] = _bits(real, integer)
        functions[f"{name}_from_bits"] = _bits(integer, real)
        functions[f"{name}_fma"] = _fused(library.fmaf if name == "f32" else library.fma, real, foreign)
    return functions | {"f16_load": _half_load, "f16_store": _half_store}


def _half_load(bits: int) -> np.float32:
    return np.float32(np.uint16(bits).view(np.float16))


def _half_store(value: np.float32) -> int:
    return int(np.float16(value).view(np.uint16))


def _bits(source: Any, target: Any) -> Callable[[Any], Any]:
    if np.issubdtype(target, np.integer):
        return lambda value: int(source(value).view(target))
    return lambda value: source(value).view(target)


def _fused(function: Any, real: Any, foreign: Any) -> Callable[[Any, Any, Any], Any]:
    function.restype, function.argtypes = foreign, [foreign] * 3
    return lambda a, b, c: real(function(a, b, c))


# --- memory: NumPy arrays of one dimension


def _memory() -> dict[str, Any]:
    functions: dict[str, Any] = {"report": _report}
    functions |= {"load8_u16_words": _load_words, "store8_u16_words": _store_words}
    for name, most in _ELEMENTS.items():
        for lanes in (lanes for lanes in (2, 4, 8, 16) if lanes <= most):
            functions[f"load{lanes}_{name}"] = _vector_load(lanes)
            functions[f"store{lanes}_{name}"] = _vector_store(lanes)
        functions[f"shared_{name}"] = _shared(MEMORY[name])
        functions |= {f"{name}_load_if": _load_if, f"{name}_store_if": _store_if}
        functions[f"{name}_pointer"] = _view(MEMORY[name])
    functions |= {"atomic_add_u32": _atomic_add(32), "atomic_add_i64": _atomic_add(64)}
    return functions


def _load_if(pointer: Any, index: int, test: bool, otherwise: Any) -> Any:
    return pointer[index] if test else otherwise


def _store_if(pointer: Any, index: int, value: Any, test: bool) -> None:
    if test:
        pointer[index] = value


def _shared(kind: Any) -> Callable[[int], Any]:
    return lambda count: simulation.shared(count, kind)


def _vector_load(lanes: int) -> Callable[[Any, int], tuple[Any, ...]]:
    def load(pointer: Any, index: int) -> tuple[Any, ...]:
        _check(index, lanes)
        return tuple([pointer[index + lane] for lane in range(lanes)])

    return load


def _vector_store(lanes: int) -> Callable[..., None]:
    def store(pointer: Any, index: int, *values: Any) -> None:
        _check(index, lanes)
        assert len(values) == lanes, f"{len(values)} values for {lanes} lanes"
        for lane, value in enumerate(values):
            pointer[index + lane] = value

    return store


def _load_words(pointer: Any, index: int) -> tuple[int, ...]:
    _check(index, 8)
    halves = [int(pointer[index + lane]) for lane in range(8)]
    return tuple(halves[lane] | halves[lane + 1] << 16 for lane in range(0, 8, 2))


def _store_words(pointer: Any, index: int, *words: int) -> None:
    _check(index, 8)
    for number, word in enumerate(words):
        pointer[index + 2 * number], pointer[index + 2 * number + 1] = word & 0xFFFF, word >> 16


def _check(index: int, lanes: int) -> None:
    if index % lanes:
        raise IndexError(f"a vector access at element {index}, which is not a multiple of {lanes}")


def _view(kind: Any) -> Callable[[Any, int], Any]:
    def view(memory: Any, offset: int) -> Any:
        whole = np.asarray(memory)
        return whole[offset : offset + (len(whole) - offset) // kind().itemsize * kind().itemsize].view(kind)

    return view


def _atomic_add(bits: int) -> Callable[[Any, int, int], int]:
    wrap = _wrapping(bits == 64, bits)

    def add(pointer: Any, index: int, value: int) -> int:
        with _ATOMIC:
            before = int(pointer[index])
            pointer[index] = wrap(before + value)
        return before

    return add


def _report(error: Any, site: int, value0: int, value1: int) -> None:
    with _ATOMIC:
        if error[0] == 0:
            error[0], error[1], error[2] = site + 1, value0, value1
