"""Kernel text as numba compiles it, run on this host: what Python says of the same text, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dfc.ir.dtypes import BOOL, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.primitives import COMPARISONS, PRIMITIVES, fits
from dfc.lower.legalise.library import REGISTERS, library
from dfc_target_cuda.code.device_functions import kernel_code, names
from dfc_target_cuda.code.fragments import TextKey
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.primitives import MEMORY
from tests.support.native_texts import NativeText, host_module, same_bits
from tests.support.sweeping import few

EDGES = [0, 1, -1, 2, -2, 3, -3, 7, -7, 2**63 - 1, -(2**63), -(2**63) + 1, 2**32, -(2**32)]


def key(body: str, pointers: tuple[str, ...], sizes: int = 0) -> TextKey:
    names = [*"abcdefgh"[: len(pointers)], *(f"d{number}" for number in range(sizes)), "error"]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return TextKey(f"def kernel({', '.join(names)}):\n{lines}", pointers, sizes, False, 32)


def run(body: str, arrays: list[np.ndarray], *sizes: int) -> None:
    """As one lane."""
    text = key(body, tuple(f"{array.dtype.kind}{8 * array.itemsize}" for array in arrays), len(sizes))
    error = np.zeros(3, np.int64)
    arguments = [*(array.ctypes.data for array in arrays), *sizes, error.ctypes.data]
    NativeText(text, len(arguments)).lane(*arguments)


def each(count: str, *lines: str) -> str:
    """The lines for each `i` below a count."""
    return "\n".join(["i = 0", f"while i < {count}:", *(f"    {line}" for line in (*lines, "i = i + 1"))])


@pytest.mark.parametrize(("name", "known"), [("floordiv", int.__floordiv__), ("mod", int.__mod__)])
def test_division_rounds_down_and_gives_zero_by_zero(name: str, known: Callable[[int, int], int]) -> None:
    pairs = [(x, y) for x in EDGES for y in EDGES]
    x, y = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    out = np.full(len(pairs), 99, np.int64)
    run(each("d0", f"c[i] = i64_{name}(a[i], b[i])"), [x, y, out], len(pairs))
    expected = [0 if b == 0 else (known(a, b) + 2**63) % 2**64 - 2**63 for a, b in pairs]
    assert out.tolist() == expected
    unsigned = [one.view(np.uint64) for one in (x, y, out)]
    run(each("d0", f"c[i] = u64_{name}(a[i], b[i])"), unsigned, len(pairs))
    pairs = list(zip(x.view(np.uint64).tolist(), y.view(np.uint64).tolist(), strict=True))
    assert unsigned[2].tolist() == [0 if b == 0 else known(a, b) for a, b in pairs]


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_conversions_keep_the_number(kind: str) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, limits.max, 0, 1, limits.max - 1, limits.max // 2], kind)
    wide, single, double = (np.zeros(len(x), one) for one in ("i8", "f4", "f8"))
    run(each("d0", "b[i] = i64(a[i])", "c[i] = f32(a[i])", "d[i] = f64(a[i])"), [x, wide, single, double], len(x))
    np.testing.assert_array_equal(wide, x.astype(np.int64))
    np.testing.assert_array_equal(single, x.astype(np.float32))
    np.testing.assert_array_equal(double, x.astype(np.float64))
    back = np.zeros(len(x), np.int32)
    run(each("d0", "b[i] = i32(a[i])"), [np.array([-1.9, 1.9, -3, 2**31 - 1, -(2.0**31), 0]), back], 6)
    assert back.tolist() == [-1, 1, -3, 2**31 - 1, -(2**31), 0]


def test_nothing_is_touched_where_an_access_is_not_asked_for() -> None:
    """A null pointer would be read, or written."""
    body = each(
        "4",
        "c[i] = i64(f32_load_if(f32_pointer(b, 0), i, i < d0, f32(9.0)))",
        "f32_store_if(f32_pointer(a, 0), i, f32(1.0), i < d0)",
    )
    out, values = np.zeros(4, np.int64), np.array([3, -2], np.float32)
    written = np.zeros(3, np.float32)
    text = NativeText(key(body, ("u8", "u8", "i64"), 1), 5).lane
    text(written.ctypes.data, values.ctypes.data, out.ctypes.data, 2, out.ctypes.data)
    assert out.tolist() == [3, -2, 9, 9] and written.tolist() == [1, 1, 0]
    text(0, 0, out.ctypes.data, 0, out.ctypes.data)
    assert out.tolist() == [9] * 4


def test_names_keep_their_value_across_blocks() -> None:
    inner = """if (i & 1) == 0:
    part = i * 10
else:
    part = i
    last = part
while part > 3:
    part = part - 3
    inner = part
    total = total + inner
a[i] = part"""
    body = (
        "total = 0\nlast = 5\n" + each("d0", *inner.splitlines()) + "\na[d0] = total\na[d0 + 1] = last\na[d0 + 2] = i"
    )
    out = np.zeros(9, np.int64)
    run(body, [out], 6)
    names: dict[str, object] = {"a": [0] * 9, "d0": 6}
    exec(body, names)
    assert out.tolist() == names["a"]


def test_a_function_ends_where_it_returns() -> None:
    out = np.zeros(2, np.int64)
    body = "if d0 > 3:\n    a[0] = 1\n    return\nelse:\n    if d0 > 2:\n        a[0] = 2\n        return\na[1] = 3"
    for size, expected in ((4, [1, 0]), (3, [2, 0]), (0, [0, 3])):
        out[:] = 0
        run(body, [out], size)
        assert out.tolist() == expected


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("a[0] = a[0] + a[1]", "operators are for indices, and this is float32"),
        ("c[0] = c[0] + d0", "operators are for indices, and this is uint64"),
        ("if a[0] < a[1]:\n    a[0] = a[1]", "operators are for indices, and this is float32"),
        ("a[0] = f32_add(a[0], b[0])", "float32 is expected, and this is float64"),
        ("a[0] = f32_add(a[0], d0)", "float32 is expected, and this is int64"),
        ("c[0] = u64_add(c[0], d0)", "uint64 is expected, and this is int64"),
        ("c[0] = d0", "uint64 is expected, and this is int64"),
        ("a[0] = 1.0", "float32 is expected, and this is float64"),
        ("a[0] = missing", "not a name of the prelude: missing"),
        ("a[0] = f32_nothing(a[0])", "not a name of the prelude: f32_nothing"),
        ("a[0] = f32_fma(a[0], a[0])", "3 arguments are expected, and these are 2"),
        ("a[0] = f32_fma(a[0], a[0], b[0])", "float32 is expected, and this is float64"),
        ("a[0] = f32_exp(b[0])", "f32_exp: float32 is expected, and this is float64"),
        ("a[0] = f32_select(d0, a[0], a[1])", "bool is expected, and this is int64"),
        ("a[0] = f32_select(not d0, a[0], a[1])", "a condition is a boolean, and this is int64"),
        ("while d0:\n    a[0] = a[1]", "a condition is a boolean, and this is int64"),
        ("a[0] = f32_select(d0 > 1, a[0], b[0])", "float32 is expected, and this is float64"),
        ("a[b[0]] = a[0]", "an index is int64, and this is float64"),
        ("x, y = load4_f32(a, 0)", "expected 2, got 4"),
        ("a[0] = load4_f32(a, 0)", "float32 is expected, and this is UniTuple"),
        ("x = shared_f32(d0)", "the size of shared memory is a number"),
        ("a[0] = f32_warp_add(a[0], d0)", "the mask of a fold is a number"),
        ("a[0] = f32(d0[0])", "(?s)getitem.int64"),
        ("a[0] = f32(999999999999999999999)", "no type has this number"),
    ],
)
def test_types_that_do_not_go_together_are_refused(body: str, why: str) -> None:

    with pytest.raises(CodeGenerationError, match=why):
        kernel_code(key(body, ("f32", "f64", "u64"), 1), "compute_80")


def test_values_of_i64_wrap_and_are_compared_as_they_wrapped() -> None:
    """A compiler that may assume that sums stay within their type says that x + 1 is above x."""
    x, out = np.array([2**63 - 1, 2**62, 5], np.int64), np.zeros(9, np.int64)
    lines = ("b[i * 3] = more", "b[i * 3 + 1] = i64_mul(a[i], 4)", "b[i * 3 + 2] = i64(more > a[i])")
    body = each("3", "more = i64_add(a[i], 1)", *lines)
    run(body, [x, out])
    assert out.tolist() == [-(2**63), -4, 0, 2**62 + 1, 0, 1, 6, 20, 1]
    plain = "b[0] = i64_add(a[0], 1)\nb[1] = i64_mul(a[0], 4)\nb[2] = i64_neg(a[0])\nb[3] = i64_sub(a[0], 1)"
    assert " nsw " not in host_module(key(plain, ("i64", "i64")))


def test_an_index_stays_within_its_type() -> None:
    """So that the compiler knows how often a loop runs that goes on by such steps."""
    text = host_module(key("b[thread() * 4 + 1 - block_index()] = a[0]", ("i64", "i64")))
    assert all(f"{name} nsw i64" in text for name in ("add", "sub", "mul"))


def awkward(name: str, count: int, seed: int) -> np.ndarray:
    """Numbers of a type of kernel text: special ones, any bits, and usual ones."""
    source = np.random.default_rng(seed)
    if name == "boolean":
        return source.integers(0, 2, count).astype(np.uint8)
    kind = np.dtype(f"{name[0]}{int(name[1:]) // 8}")
    made = source.integers(0, 256, count * kind.itemsize, np.uint8).view(kind)
    with np.errstate(all="ignore"):
        made[::3] = (source.standard_normal(len(made[::3])) * 10).astype(kind)
    special = [0, 1, np.inf, -np.inf, np.nan, -0.0, 0.5] if kind.kind == "f" else [0, 1, 2, 3]
    made[1 : 1 + 4 * len(special) : 4] = np.array(special, kind)
    return made


PUBLIC = frozenset(
    (
        *(
            "exp",
            "log",
            "log1p",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "tanh",
            "erf",
            "pow",
            "is_finite",
            "minimum",
            "maximum",
        ),
        *("sign", "neg", "abs", "mod", "floordiv", "shift_left", "shift_right", "above", "below"),
        *("load", "store", "round"),
    )
)
"""What means something for any numbers; other functions of the library are reached through these."""


def public(name: str) -> bool:
    return name.startswith(("to_", "philox_normal_", "philox_uniform_")) or name.split("_", 1)[1] in PUBLIC


def kind_of(dtype: DType) -> str:
    return "boolean" if dtype.is_bool else dtype.name


def signatures() -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, types of the operands, types of the results) of functions and of primitive instructions."""
    for function in library().values():
        if public(function.name):
            operands = [kind_of(parameter.dtype) for parameter in function.parameters]
            yield function.name, operands, [kind_of(dtype) for dtype in function.result_types]
    for dtype in REGISTERS:
        for name in sorted(PRIMITIVES):
            for count in (1, 2, 3):
                result = BOOL if name in COMPARISONS else dtype
                text = f"{kind_of(dtype)}_{name}"
                if fits(name, [dtype] * count, result) and text in names() and text not in library():
                    yield text, [kind_of(dtype)] * count, [kind_of(result)]
        yield f"{kind_of(dtype)}_select", ["boolean", *[kind_of(dtype)] * 2], [kind_of(dtype)]


FUNCTIONS = list(signatures())


@pytest.mark.parametrize("part", few(range(16), 1))
def test_functions_have_the_bits_of_the_simulation(part: int) -> None:
    assert len(FUNCTIONS) > 300
    for name, kinds, results in FUNCTIONS[part::16]:
        arrays = [awkward(kind, 60, number) for number, kind in enumerate(kinds)]
        outputs = [np.zeros(60, MEMORY.get(kind, np.uint8)) for kind in results]
        memory = [f"{letter}[i]" for letter in "abcdefgh"]
        given = [f"boolean({each})" if kind == "boolean" else each for each, kind in zip(memory, kinds, strict=False)]
        named = [f"r{number}" for number in range(len(results))]
        lines = [f"{', '.join(named)} = {name}({', '.join(given)})"]
        for number, kind in enumerate(results):
            value = f"u8(r{number})" if kind == "boolean" else f"r{number}"
            lines.append(f"{memory[len(kinds) + number]} = {value}")
        body = each("d0", *lines)
        run(body, [*arrays, *outputs], 60)
        python = [output.copy() for output in outputs]
        with np.errstate(all="ignore"):
            simulated(body, [*arrays, *python], 60)
        for found, wanted in zip(outputs, python, strict=True):
            assert same_bits(found, wanted), (name, found[found != wanted], wanted[found != wanted])


def simulated(body: str, arrays: list[np.ndarray], size: int) -> None:
    """As Python."""
    text = key(body, tuple(f"{array.dtype.kind}{8 * array.itemsize}" for array in arrays), 1)
    known = dict(simulated_names(4))
    define(text.source, "<a text>", known)
    known["kernel"](*arrays, size, np.zeros(3, np.int64))
