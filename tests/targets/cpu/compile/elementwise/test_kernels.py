"""Maps: element-wise kernels over all element types, shapes around the vector width, strides, masks, gathers."""

import ml_dtypes
import numpy as np
import pytest

from dfc.ir import dtypes
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType
from dfc.kernels.body import Affine, Computed, Mask
from dfc.kernels.form import LoopKernel
from tests.support.programs import KernelMaker, Runner, axis_index

LENGTHS = (0, 1, 3, 15, 16, 17, 31, 32, 33, 64, 65, 127, 1000)
NUMBERS = (dtypes.I8, dtypes.I16, I32, I64, U8, dtypes.U16, dtypes.U32, U64, F16, BF16, F32, F64)


def binary(function: str, dtype: DType, fault: int = -1) -> LoopKernel:
    k = KernelMaker(1)
    a, b = k.load(dtype, 0), k.load(dtype, 0)
    return k.map(k.store(k.body.apply(function, a, b, fault=fault), 0))


def unary(function: str, dtype: DType) -> LoopKernel:
    k = KernelMaker(1)
    return k.map(k.store(k.body.apply(function, k.load(dtype, 0)), 0))


def cast(source: DType, target: DType) -> LoopKernel:
    k = KernelMaker(1)
    return k.map(k.store(k.body.cast(k.load(source, 0), target), 0))


def sample(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Numbers with a spread of sizes and signs; integers of every size."""
    generator = np.random.default_rng([seed, count])
    if dtype.is_float:
        return (generator.standard_normal(count) * 8).astype(dtype.numpy)
    if dtype.is_bool:
        return generator.random(count) < 0.5
    raw = generator.integers(0, 256, count * dtype.size, dtype=np.uint8)
    return raw.view(dtype.numpy)


def run_binary(runner: Runner, number: int, a: np.ndarray, b: np.ndarray, result: np.dtype) -> np.ndarray:
    out = np.zeros(len(a), result)
    assert runner.run(number, [a, b, out], [len(a)]) == 0
    return out


def test_arithmetic_of_every_type_and_length() -> None:
    cases = [(f, d) for d in NUMBERS for f in ("add", "sub", "mul", "minimum", "maximum")]
    runner = Runner([binary(f, d) for f, d in cases])
    for number, (function, dtype) in enumerate(cases):
        for count in LENGTHS:
            a, b = sample(dtype, count, 1), sample(dtype, count, 2)
            with np.errstate(all="ignore"):
                wide = np.float32 if dtype.name in ("f16", "bf16") else dtype.numpy
                ufunc = {"sub": "subtract", "mul": "multiply"}.get(function, function)
                expected = getattr(np, ufunc)(a.astype(wide), b.astype(wide)).astype(dtype.numpy)
            out = run_binary(runner, number, a, b, dtype.numpy)
            assert out.tobytes() == expected.tobytes(), (function, dtype, count)


def test_comparisons() -> None:
    names = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    cases = [(f, d) for d in (I8, U8, U64, I64, F16, F32, F64) for f in names]
    runner = Runner([binary(f, d) for f, d in cases])
    for number, (function, dtype) in enumerate(cases):
        a, b = sample(dtype, 77, 1), sample(dtype, 77, 2)
        b[::3] = a[::3]
        if dtype.is_float:
            a[5] = b[6] = np.nan
        out = run_binary(runner, number, a, b, np.dtype(bool))
        assert np.array_equal(out, getattr(np, function)(a, b)), (function, dtype)


def test_bits() -> None:
    cases = [(f, d) for d in (I8, I32, I64, U8, U64) for f in ("and", "or", "xor", "shift_left", "shift_right")]
    names = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    names |= {"shift_left": "left_shift", "shift_right": "right_shift"}
    runner = Runner([*(binary(f, d) for f, d in cases), binary("xor", BOOL), unary("not", U8)])
    for number, (function, dtype) in enumerate(cases):
        a, b = sample(dtype, 99, 1), sample(dtype, 99, 2)
        if function.startswith("shift"):
            b = (b % (8 * dtype.size)).astype(dtype.numpy)
        expected = getattr(np, names[function])(a, b)
        assert np.array_equal(run_binary(runner, number, a, b, dtype.numpy), expected), (function, dtype)
    a, b = sample(BOOL, 99, 1), sample(BOOL, 99, 2)
    assert np.array_equal(run_binary(runner, len(cases), a, b, np.dtype(bool)), a ^ b)
    x, out = sample(U8, 99), np.zeros(99, np.uint8)
    assert runner.run(len(cases) + 1, [x, out], [99]) == 0
    assert np.array_equal(out, ~x)


@pytest.mark.parametrize("function", ["floordiv", "mod"])
def test_integer_division_floors_and_survives_its_edges(function: str) -> None:
    types = (I8, dtypes.I16, I32, I64, U8, dtypes.U32, U64)
    runner = Runner([binary(function, d) for d in types])
    for number, dtype in enumerate(types):
        a, b = sample(dtype, 500, 1), sample(dtype, 500, 2)
        info = np.iinfo(dtype.numpy)
        a[:3], b[:3] = info.min, [info.max, dtype.numpy.type(-1 if info.min else 1), 1]
        b[b == 0] = 3
        with np.errstate(all="ignore"):
            expected = (np.floor_divide if function == "floordiv" else np.mod)(a, b)
        assert np.array_equal(run_binary(runner, number, a, b, dtype.numpy), expected), dtype


def test_division_by_zero_is_reported_where_it_happens() -> None:
    runner = Runner([binary("floordiv", I32, fault=2)])
    a, b, out = sample(I32, 40), np.ones(40, np.int32), np.zeros(40, np.int32)
    assert runner.run(0, [a, b, out], [40]) == 0
    b[37] = 0
    assert runner.run(0, [a, b, out], [40]) != 0
    assert runner.drivers[1].last_fault()[0] == 2
    b[37] = 1
    assert runner.run(0, [a, b, out], [40]) == 0


@pytest.mark.parametrize("dtype", [F32, F64])
def test_float_division_floor_and_remainder(dtype: DType) -> None:
    runner = Runner([binary(f, dtype) for f in ("div", "floordiv", "mod")])
    a, b = sample(dtype, 300, 1), sample(dtype, 300, 2)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e30, 3e-39]
    a[:81], b[:81] = np.repeat(special, 9), np.tile(special, 9)
    for number, ufunc in enumerate((np.divide, np.floor_divide, np.mod)):
        with np.errstate(all="ignore"):
            expected = ufunc(a, b)
        out = run_binary(runner, number, a, b, dtype.numpy)
        assert np.array_equal(out, expected, equal_nan=True), ufunc
        assert np.array_equal(np.signbit(out)[~np.isnan(out)], np.signbit(expected)[~np.isnan(out)]), ufunc


def test_unary_functions() -> None:
    exact = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil}
    exact |= {"round": np.rint, "trunc": np.trunc, "is_finite": np.isfinite}
    cases = [(f, d) for d in (F32, F64) for f in exact]
    runner = Runner([unary(f, d) for f, d in cases])
    for number, (function, dtype) in enumerate(cases):
        x = sample(dtype, 70)
        x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.5]
        with np.errstate(all="ignore"):
            expected = exact[function](x)
        out = np.zeros(70, expected.dtype)
        assert runner.run(number, [x, out], [70]) == 0
        assert np.array_equal(out, expected, equal_nan=True), (function, dtype)


def test_elementary_functions_are_close() -> None:
    reference = {"exp": np.exp, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}
    runner = Runner([unary(f, F32) for f in reference])
    x = np.abs(sample(F32, 333)) + np.float32(0.01)
    for number, (name, function) in enumerate(reference.items()):
        out = np.zeros_like(x)
        assert runner.run(number, [x, out], [333]) == 0
        expected = function(x.astype(np.float64))
        assert np.all(np.abs(out - expected) <= 4 * np.spacing(np.abs(expected).astype(np.float32))), name


def test_casts_between_all_types() -> None:
    everything = (BOOL, *NUMBERS)
    cases = [(a, b) for a in everything for b in everything if a != b]
    runner = Runner([cast(a, b) for a, b in cases])
    for number, (source, target) in enumerate(cases):
        x = sample(source, 50, 3)
        expected = expected_cast(x, source, target)
        out = np.zeros(50, target.numpy)
        assert runner.run(number, [x, out], [50]) == 0
        assert np.array_equal(out, expected), (source, target)


def expected_cast(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
    if source.is_float and target.is_integer:
        info = np.iinfo(target.numpy)
        limited = [min(max(int(v), int(info.min)), int(info.max)) for v in x.astype(np.float64)]
        return np.array(limited, dtype=target.numpy)
    if target.name in ("f16", "bf16") and source.is_integer:
        x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        return x.astype(target.numpy)


def test_float_to_integer_saturates() -> None:
    runner = Runner([cast(F32, I32), cast(F64, U8), cast(F32, BOOL)])
    x = np.array([np.nan, np.inf, -np.inf, 3e10, -3e10, -1.5, 1.9], np.float32)
    out, small, truth = np.zeros(7, np.int32), np.zeros(7, np.uint8), np.zeros(7, bool)
    assert runner.run(0, [x, out], [7]) == 0
    assert out.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 1]
    assert runner.run(1, [x.astype(np.float64), small], [7]) == 0
    assert small.tolist() == [0, 255, 0, 255, 0, 0, 1]
    assert runner.run(2, [np.array([0, -0.0, np.nan, 1, 2, 0, 3], np.float32), truth], [7]) == 0
    assert truth.tolist() == [False, False, True, True, True, False, True]


def test_half_types_round_to_even_in_all_variants() -> None:
    x = np.concatenate([np.arange(0, 70000, 7.37), np.logspace(-9, 5, 4000), [np.inf, np.nan]]).astype(np.float32)
    for isa in ("", "x86-64-v2"):
        runner = Runner([cast(F32, F16), cast(F32, BF16), cast(F16, F32), cast(F64, F16)], isa=isa)
        for number, kind in ((0, np.float16), (1, ml_dtypes.bfloat16)):
            out = np.zeros(len(x), kind)
            assert runner.run(number, [x, out], [len(x)]) == 0
            with np.errstate(all="ignore"):
                assert np.array_equal(out.astype(np.float32), x.astype(kind).astype(np.float32), equal_nan=True)
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        back = np.zeros(65536, np.float32)
        assert runner.run(2, [halves, back], [65536]) == 0
        assert np.array_equal(back, halves.astype(np.float32), equal_nan=True)
        tricky = np.array([2049 + 2.0**-40, 2051 - 2.0**-40, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-50], np.float64)
        out = np.zeros(4, np.float16)
        assert runner.run(3, [tricky, out], [4]) == 0
        assert np.array_equal(out, tricky.astype(np.float16))


def test_select_and_logic() -> None:
    k = KernelMaker(1)
    a, b, p, q = k.load(F32, 0), k.load(F32, 0), k.load(BOOL, 0), k.load(BOOL, 0)
    chosen = k.body.apply("select", k.body.apply("and", p, k.body.apply("not", q)), a, b)
    either = k.body.apply("or", p, q)
    runner = Runner([k.map(k.store(chosen, 0), k.store(either, 0))])
    x, y, p_, q_ = sample(F32, 41), sample(F32, 41, 5), sample(BOOL, 41, 6), sample(BOOL, 41, 7)
    out, truth = np.zeros(41, np.float32), np.zeros(41, bool)
    assert runner.run(0, [x, y, p_, q_, out, truth], [41]) == 0
    assert np.array_equal(out, np.where(p_ & ~q_, x, y)) and np.array_equal(truth, p_ | q_)


def test_broadcasts_and_scalars_of_two_axes() -> None:
    def kernel(fixed: dict[int, int]) -> LoopKernel:
        k = KernelMaker(2, fixed)
        x, row, column, one = k.load(F32, 0, 1), k.load(F32, -1, 1), k.load(F32, 0, -1), k.load(F32, -1, -1)
        total = k.body.apply("add", k.body.apply("mul", x, row), k.body.apply("sub", column, one))
        return k.map(k.store(total, 0, 1))

    runner = Runner([kernel({}), kernel({1: 10}), kernel({0: 3, 1: 37})])
    for number, shapes in enumerate(([(0, 5), (5, 0), (1, 1), (4, 16), (7, 19)], [(1, 10), (33, 10)], [(3, 37)])):
        for rows, columns in shapes:
            x = sample(F32, rows * columns).reshape(rows, columns)
            row, column, one = sample(F32, columns), sample(F32, rows), sample(F32, 1)
            out = np.zeros_like(x)
            assert runner.run(number, [x, row, column, one, out], [rows, columns]) == 0
            assert np.array_equal(out, x * row + (column[:, None] - one))


def test_transposed_and_strided_loads_and_stores() -> None:
    k = KernelMaker(2)
    x = k.load(F32, 1, 0)
    every_other = k.operand(F32, (k.sizes[0], k.sizes[1] * 2), "read")
    y = k.load_at(every_other, (Affine(((0, 1),)), Affine(((1, 2),), dim(1))))
    reverse = k.operand(F32, (k.sizes[0], k.sizes[1]), "read")
    z = k.load_at(reverse, (Affine(((0, 1),)), Affine(((1, -1),), k.sizes[1] - 1)))
    total = k.body.apply("add", k.body.apply("add", x, y), z)
    runner = Runner([k.map(k.store(total, 0, 1), k.store(total, 1, 0))])
    for rows, columns in ((1, 1), (5, 17), (33, 16), (20, 3)):
        a, b = sample(F32, rows * columns).reshape(columns, rows), sample(F32, 2 * rows * columns, 2)
        b, c = b.reshape(rows, 2 * columns), sample(F32, rows * columns, 3).reshape(rows, columns)
        out, turned = np.zeros((rows, columns), np.float32), np.zeros((columns, rows), np.float32)
        assert runner.run(0, [a, b, c, out, turned], [rows, columns]) == 0
        expected = (a.T + b[:, 1::2]) + c[:, ::-1]
        assert np.array_equal(out, expected) and np.array_equal(turned, expected.T)


def test_padding_reads_nothing_outside() -> None:
    k = KernelMaker(2)
    n, m = dim(Symbol("d2")), dim(Symbol("d3"))
    source = k.operand(F32, (n, m), "read")
    outside = k.body.number(-1.0, F32)
    index = (Affine(((0, 1),), dim(-2)), Affine(((1, 1),), dim(-1)))
    x = k.load_at(source, index, Mask(((0, 1), (1, 1)), outside))
    spread = k.load_at(source, (Affine(((0, 1),)), Affine(((1, 1),))), Mask(((0, 1), (1, 3)), outside))
    kernel = k.map(k.store(x, 0, 1), k.store(spread, 0, 1))
    runner = Runner([kernel])
    for rows, columns in ((3, 4), (5, 30), (1, 1)):
        a = sample(F32, rows * columns).reshape(rows, columns)
        shape = (rows + 4, 3 * columns + 1)
        out, dilated = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        assert runner.run(0, [a, out, dilated], [*shape, rows, columns]) == 0
        expected = np.full(shape, -1, np.float32)
        expected[2 : 2 + rows, 1 : 1 + columns] = a
        assert np.array_equal(out, expected)
        expected = np.full(shape, -1, np.float32)
        expected[:rows, : 3 * columns : 3] = a
        assert np.array_equal(dilated, expected)


@pytest.mark.parametrize("ids", [I32, I64, U8])
def test_gathered_rows_and_elements(ids: DType) -> None:
    k = KernelMaker(2)
    table = k.operand(F32, (dim(Symbol("d2")), k.sizes[1]), "read")
    which = k.load(ids, 0)
    row = k.load_at(table, (Computed(which, 1), Affine(((1, 1),))))
    rows = k.map(k.store(row, 0, 1))
    k = KernelMaker(1)
    table = k.operand(F32, (dim(Symbol("d1")),), "read")
    element = k.load_at(table, (Computed(k.load(ids, 0), 3),))
    runner = Runner([rows, k.map(k.store(element, 0))])
    values = sample(F32, 20 * 9).reshape(20, 9)
    numbers = np.random.default_rng(0).integers(0 if ids.kind == "unsigned" else -20, 20, 45).astype(ids.numpy)
    out, picked = np.zeros((45, 9), np.float32), np.zeros(45, np.float32)
    assert runner.run(0, [values, numbers, out], [45, 9, 20]) == 0
    assert np.array_equal(out, values[numbers])
    flat = values[:, 0].copy()
    assert runner.run(1, [flat, numbers, picked], [45, 20]) == 0
    assert np.array_equal(picked, flat[numbers])
    numbers[44] = 20
    assert runner.run(0, [values, numbers, out], [45, 9, 20]) != 0
    assert runner.drivers[1].last_fault() == (1, (20, 20, 0, 0))
    assert runner.run(1, [flat, numbers, picked], [45, 20]) != 0
    assert runner.drivers[1].last_fault() == (3, (20, 20, 0, 0))


def test_an_index_known_to_be_inside_is_not_checked() -> None:
    k = KernelMaker(1)
    table = k.operand(F32, (dim(Symbol("d1")),), "read")
    element = k.load_at(table, (Computed(k.load(I32, 0), -1),))
    runner = Runner([k.map(k.store(element, 0))])
    assert "fault" not in runner.listing
    values, numbers, out = sample(F32, 20), np.arange(19, -1, -1, dtype=np.int32), np.zeros(20, np.float32)
    assert runner.run(0, [values, numbers, out], [20, 20]) == 0
    assert np.array_equal(out, values[::-1])


def test_index_values_and_mixed_widths() -> None:
    k = KernelMaker(2)
    i, j = k.body.axis(0), k.body.axis(1)
    linear = k.body.apply("add", k.body.apply("mul", i, k.body.size(k.sizes[1])), j)
    even = k.body.apply("equal", k.body.apply("mod", linear, k.body.number(2, I64)), k.body.number(0, I64))
    x = k.body.cast(k.load(F32, 0, 1), F64)
    value = k.body.apply("select", even, x, k.body.cast(linear, F64))
    runner = Runner([k.map(k.store(value, 0, 1), k.store(k.body.cast(even, I8), 0, 1))])
    x_ = sample(F32, 7 * 21).reshape(7, 21)
    out, flags = np.zeros((7, 21)), np.zeros((7, 21), np.int8)
    assert runner.run(0, [x_, out, flags], [7, 21]) == 0
    order = np.arange(7 * 21).reshape(7, 21)
    assert np.array_equal(out, np.where(order % 2 == 0, x_.astype(np.float64), order))
    assert np.array_equal(flags, order % 2 == 0)


def test_in_place_update() -> None:
    k = KernelMaker(1)
    state = k.operand(F32, k.over(0), "update")
    old = k.load_at(state, axis_index(0))
    new = k.body.apply("sub", old, k.body.apply("mul", k.load(F32, 0), k.body.number(0.5, F32)))
    store = k.store(new, 0)
    kernel = k.map(type(store)(state, store.index, new))
    runner = Runner([LoopKernel(kernel.operands[:2], kernel.axes, kernel.outer, kernel.stages)])
    w, g = sample(F32, 100, 1), sample(F32, 100, 2)
    expected = w - g * np.float32(0.5)
    assert runner.run(0, [w, g], [100]) == 0
    assert np.array_equal(w, expected)


def test_threads_do_not_change_bits() -> None:
    k = KernelMaker(1)
    x = k.load(F32, 0)
    kernel = k.map(k.store(k.body.apply("tanh", k.body.apply("exp", x)), 0))
    runner = Runner([kernel])
    count = 500_003
    x_ = sample(F32, count)
    one, two = np.zeros_like(x_), np.zeros_like(x_)
    assert runner.run(0, [x_, one], [count], threads=1) == 0
    assert runner.run(0, [x_, two], [count], threads=2) == 0
    assert one.tobytes() == two.tobytes() and np.all(np.isfinite(one))


def test_one_index_serves_axes_of_different_lengths() -> None:
    k = KernelMaker(1)
    table = k.operand(F32, (dim(4), dim(9)), "read")
    which = k.load(I32, 0)
    runner = Runner([k.map(k.store(k.load_at(table, (Computed(which, 1), Computed(which, 1))), 0))])
    values, numbers, out = sample(F32, 36).reshape(4, 9), np.array([-1, 0, 3, -4], np.int32), np.zeros(4, np.float32)
    assert runner.run(0, [values, numbers, out], [4]) == 0
    assert np.array_equal(out, values[numbers, numbers])


def test_only_long_maps_ask_for_memory_ahead() -> None:
    def listing(rank: int, fixed: dict[int, int]) -> str:
        k = KernelMaker(rank, fixed)
        axes = range(rank)
        return Runner([k.map(k.store(k.body.apply("exp", k.load(F32, *axes)), *axes))]).listing

    asks = "call void @llvm.prefetch"
    assert asks in listing(1, {})
    assert asks in listing(2, {1: 1 << 15})
    assert asks not in listing(2, {0: 20, 1: 40})
