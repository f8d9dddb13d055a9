"""Kernel text as numba compiles it, run on this host: what Python says of the same text, and what is refused."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np
import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.kernels.prelude import prelude
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.primitives import MEMORY
from tests.support.native_texts import NativeText, host_modules, same_bits
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
    NativeText(text, len(arguments)).lane()(*arguments)


@pytest.mark.parametrize("sign", ["//", "%"])
def test_division_rounds_down_and_gives_zero_by_zero(sign: str) -> None:
    known: Callable[[int, int], int] = {"//": int.__floordiv__, "%": int.__mod__}[sign]
    pairs = [(x, y) for x in EDGES for y in EDGES]
    x, y = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    out = np.full(len(pairs), 99, np.int64)
    run(f"for i in range(d0):\n    c[i] = a[i] {sign} b[i]", [x, y, out], len(pairs))
    expected = [0 if b == 0 else (known(a, b) + 2**63) % 2**64 - 2**63 for a, b in pairs]
    assert out.tolist() == expected
    unsigned = [one.view(np.uint64) for one in (x, y, out)]
    run(f"for i in range(d0):\n    c[i] = a[i] {sign} b[i]", unsigned, len(pairs))
    pairs = list(zip(x.view(np.uint64).tolist(), y.view(np.uint64).tolist(), strict=True))
    assert unsigned[2].tolist() == [0 if b == 0 else known(a, b) for a, b in pairs]


def test_division_by_a_number_rounds_down_too() -> None:
    x = np.arange(-9, 10)
    out = np.zeros((2, len(x)), np.int64)
    run("for i in range(d0):\n    b[i] = a[i] // 4\n    b[i + d0] = a[i] % 4", [x, out.reshape(-1)], len(x))
    np.testing.assert_array_equal(out, [x // 4, x % 4])


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_casts_wrap(kind: str) -> None:
    x = np.array(EDGES, np.int64)
    out = np.zeros(len(x), kind)
    name = f"{out.dtype.kind}{8 * out.itemsize}"
    run(f"for i in range(d0):\n    b[i] = {name}({name}(a[i]) * {name}(5))", [x, out], len(x))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, x.astype(kind) * np.array(5, kind))


@pytest.mark.parametrize("kind", ["i1", "i4", "i8", "u1", "u4", "u8"])
def test_integers_are_ordered_by_their_sign(kind: str) -> None:
    limits = np.iinfo(kind)
    values = [limits.min, limits.max, 0, 1, limits.max // 2 + 1]
    x, y = (np.array(side, kind) for side in zip(*((a, b) for a in values for b in values), strict=True))
    out = np.zeros(4 * len(x), np.uint8)
    lines = [f"    c[i * 4 + {n}] = u8({test})" for n, test in enumerate(("a[i] < b[i]", "a[i] >= b[i]", "a[i] > 0"))]
    run("\n".join(["for i in range(d0):", *lines, "    c[i * 4 + 3] = u8(0 == b[i])"]), [x, y, out], len(x))
    expected = np.stack([x < y, x >= y, x > 0, y == 0], axis=1)
    np.testing.assert_array_equal(out.reshape(-1, 4), expected)


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_conversions_keep_the_number(kind: str) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, limits.max, 0, 1, limits.max - 1, limits.max // 2], kind)
    wide, single, double = (np.zeros(len(x), one) for one in ("i8", "f4", "f8"))
    body = """for i in range(d0):
    b[i] = i64(a[i])
    c[i] = f32(a[i])
    d[i] = f64(a[i])"""
    run(body, [x, wide, single, double], len(x))
    np.testing.assert_array_equal(wide, x.astype(np.int64))
    np.testing.assert_array_equal(single, x.astype(np.float32))
    np.testing.assert_array_equal(double, x.astype(np.float64))
    back = np.zeros(len(x), np.int32)
    run("for i in range(d0):\n    b[i] = i32(a[i])", [np.array([-1.9, 1.9, -3, 2**31 - 1, -(2.0**31), 0]), back], 6)
    assert back.tolist() == [-1, 1, -3, 2**31 - 1, -(2**31), 0]


def test_comparisons_with_nan_and_of_unsigned_numbers() -> None:
    x = np.array([1, np.nan, -0.0, np.inf], np.float32)
    y = np.array([np.nan, np.nan, 0.0, np.inf], np.float32)
    signs = ["<", "<=", ">", ">=", "==", "!="]
    known = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
    out = np.zeros(4 * 6, np.uint8)
    lines = [f"    c[i * 6 + {n}] = u8(a[i] {sign} b[i])" for n, sign in enumerate(signs)]
    run("\n".join(["for i in range(4):", *lines]), [x, y, out])
    assert out.reshape(4, 6).tolist() == [[int(order(a, b)) for order in known] for a, b in zip(x, y, strict=True)]
    large = np.array([2**63, 1], np.uint64)
    run("b[0] = u8(a[0] > a[1])", [large, out])
    assert out[0] == 1


def test_and_or_and_choices_compute_only_what_they_need() -> None:
    """`b[i]` lies outside where it is guarded: a null pointer would be read."""
    body = """p = f32_pointer(b, 0)
for i in range(4):
    c[i] = 7 if i < d0 and p[i] > f32(0.0) else 8
    c[i] = c[i] + (i64(p[i]) if i < d0 else 10)
    if i >= d0 or p[i] == f32(3.0):
        c[i] = 0 - c[i]"""
    out = np.zeros(4, np.int64)
    values = np.array([3, -2], np.float32)
    text = key(body, ("u8", "u8", "i64"), 1)
    NativeText(text, 5).lane()(0, values.ctypes.data, out.ctypes.data, 2, out.ctypes.data)
    assert out.tolist() == [-10, 6, -18, -18]
    NativeText(text, 5).lane()(0, 0, out.ctypes.data, 0, out.ctypes.data)
    assert out.tolist() == [-18] * 4


def test_names_keep_their_value_across_blocks() -> None:
    body = """total = 0
last = 5
for i in range(d0):
    if i % 2 == 0:
        part = i * 10
    else:
        part = i
        last = part
    while part > 3:
        part = part - 3
        inner = part
        total = total + inner
    a[i] = part
a[d0] = total
a[d0 + 1] = last
a[d0 + 2] = i"""
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
        ("a[0] = f32(a[0] + b[0])", "float32 and float64 do not go together"),
        ("a[0] = f32(a[0] + d0)", "float32 and int64 do not go together"),
        ("c[0] = u64(c[0] + d0)", "uint64 and int64 do not go together"),
        ("c[0] = d0", "uint64 is expected, and this is int64"),
        ("a[0] = 1.0", "float32 is expected, and this is float64"),
        ("a[0] = missing", "not a name of the prelude: missing"),
        ("a[0] = f32_nothing(a[0])", "not a name of the prelude: f32_nothing"),
        ("a[0] = f32_fma(a[0], a[0])", "3 arguments are expected, and these are 2"),
        ("a[0] = f32_fma(a[0], a[0], b[0])", "float32 is expected, and this is float64"),
        ("a[0] = f32_exp(b[0])", "f32_exp: float32 is expected, and this is float64"),
        ("a[0] = a[0] if d0 else a[1]", "a condition is a boolean, and this is int64"),
        ("a[0] = a[0] if not d0 else a[1]", "a condition is a boolean, and this is int64"),
        ("a[0] = a[0] if d0 > 1 else b[0]", "float32 is expected, and this is float64"),
        ("a[b[0]] = a[0]", "an index is int64, and this is float64"),
        ("x, y = load4_f32(a, 0)", "expected 2, got 4"),
        ("a[0] = load4_f32(a, 0)", "float32 is expected, and this is UniTuple"),
        ("x = shared_f32(d0)", "the size of shared memory is a number"),
        ("a[0] = f32(d0[0])", "(?s)getitem.int64"),
        ("a[0] = f32(999999999999999999999)", "no type has this number"),
    ],
)
def test_types_that_do_not_go_together_are_refused(body: str, why: str) -> None:
    from dfc_target_cuda.code.device_functions import kernel_code  # which loads numba: not with all that is collected

    with pytest.raises(CodeGenerationError, match=why):
        kernel_code(key(body, ("f32", "f64", "u64"), 1), "compute_80")


def test_products_of_i64_wrap_and_are_compared_as_they_wrapped() -> None:
    """A compiler that may assume that sums stay within their type says that x + 1 is above x."""
    x, out = np.array([2**63 - 1, 2**62, 5], np.int64), np.zeros(9, np.int64)
    body = """for i in range(3):
    b[i * 3] = i64(a[i] + 1)
    b[i * 3 + 1] = i64(a[i] * 4)
    b[i * 3 + 2] = i64(i64(a[i] + 1) > a[i])"""
    run(body, [x, out])
    assert out.tolist() == [-(2**63), -4, 0, 2**62 + 1, 0, 1, 6, 20, 1]
    plain = "b[0] = i64(a[0] + 1)\nb[1] = i64(a[0] * 4)\nb[2] = i64(-a[0])\nb[3] = i64(a[0] - 1)"
    assert " nsw " not in "".join(host_modules(key(plain, ("i64", "i64"))))


def test_an_index_stays_within_its_type() -> None:
    """So that the compiler knows how often a loop runs that goes on by such steps."""
    text = "".join(host_modules(key("b[thread() * 4 + 1 - block_index()] = a[0]", ("i64", "i64"))))
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


PUBLIC = {
    *(
        [
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
            "sign",
            "neg",
            "abs",
            "mod",
            "floordiv",
        ]
    ),
    *(["shift_left", "shift_right", "above", "below", "load", "store", "round"]),
}
"""What means something for any numbers; other functions of the prelude are reached through these."""


def public(name: str) -> bool:
    return name.startswith(("to_", "philox_normal_", "philox_uniform_")) or name.split("_", 1)[1] in PUBLIC


@pytest.mark.parametrize("part", few(range(8), 2))
def test_functions_of_the_prelude_have_the_bits_of_their_text(part: int) -> None:
    functions = [name for name in prelude.definitions() if public(name)]
    assert len(functions) > 150
    for name in functions[part::8]:
        definition = prelude.definitions()[name]
        result = definition.returns
        kinds = [each.annotation.id for each in definition.args.args]
        results = [each.id for each in (result.elts if isinstance(result, ast.Tuple) else [result])]
        arrays = [awkward(kind, 60, number) for number, kind in enumerate(kinds)]
        outputs = [np.zeros(60, MEMORY.get(kind, np.uint8)) for kind in results]
        memory = [f"{letter}[i]" for letter in "abcdefgh"]
        given = [f"boolean({each})" if kind == "boolean" else each for each, kind in zip(memory, kinds, strict=False)]
        names = [f"r{number}" for number in range(len(results))]
        lines = [f"    {', '.join(names)} = {name}({', '.join(given)})"]
        for number, kind in enumerate(results):
            value = f"u8(r{number})" if kind == "boolean" else f"r{number}"
            lines.append(f"    {memory[len(kinds) + number]} = {value}")
        body = "\n".join(["for i in range(d0):", *lines])
        run(body, [*arrays, *outputs], 60)
        python = [output.copy() for output in outputs]
        with np.errstate(all="ignore"):
            simulated(body, [*arrays, *python], 60)
        for found, wanted in zip(outputs, python, strict=True):
            assert same_bits(found, wanted), (name, found[found != wanted], wanted[found != wanted])


def simulated(body: str, arrays: list[np.ndarray], size: int) -> None:
    """As Python."""
    text = key(body, tuple(f"{array.dtype.kind}{8 * array.itemsize}" for array in arrays), 1)
    names = dict(simulated_names(4))
    define(text.source, "<a text>", names)
    names["kernel"](*arrays, size, np.zeros(3, np.int64))
