"""Maps as device code, run lane by lane: element types, functions, strides, masks, gathers, wide accesses, faults."""

import numpy as np
import pytest

from dfc.ir import dtypes
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType
from dfc.kernels.body import Affine, Computed, Mask, Philox
from dfc.kernels.form import LoopKernel
from dfc.lower.threads.schedule import DEVICE, SIMULATED
from dfc.ops.creation import philox
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_texts import compare, interpret, largest, run_text
from tests.support.programs import KernelMaker, axis_index
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_kernels import NUMBERS, binary, cast, sample, unary

LENGTHS = (0, 1, 4, 31, 70)
EXACT = ("neg", "abs", "sign", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "is_finite")


def agree(kernel: LoopKernel, arrays: list[np.ndarray], sizes: list[int], *, exact: bool = False) -> list[np.ndarray]:
    """Runs the text on these arrays, and compares with what the kernel means; gives the arrays afterwards."""
    expected = [array.copy() for array in arrays]
    fault = interpret(kernel, expected, sizes)
    text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
    error = run_text(text, arrays, sizes)
    assert bool(error[0]) == bool(fault) and text.faults >= bool(fault), text.source
    if fault:
        return arrays
    scale = max(map(largest, expected))
    for found, wanted in zip(arrays, expected, strict=True):
        if exact:
            np.testing.assert_array_equal(*(np.asarray(x, wide(x.dtype)) for x in (found, wanted)), text.source)
        else:
            compare(found, wanted, scale)
    return arrays


def wide(kind: np.dtype) -> np.dtype:
    """A type that compares NaN as NumPy does: not so bf16."""
    return kind if kind.kind in "biuf" else np.dtype(np.float32)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_arithmetic_of_every_type_and_length(dtype: DType) -> None:
    for function in ("add", "sub", "mul", "minimum", "maximum", "less", "equal"):
        for count in LENGTHS:
            k = KernelMaker(1)
            a, b = k.load(dtype, 0), k.load(dtype, 0)
            kernel = k.map(k.store(k.body.apply(function, a, b), 0))
            x, y = sample(dtype, count, 1), sample(dtype, count, 2)
            y[::3] = x[::3]
            out = np.zeros(count, bool if function in ("less", "equal") else dtype.numpy)
            agree(kernel, [x, y, out], [count], exact=True)


@pytest.mark.parametrize("dtype", [I8, I32, I64, U8, U64], ids=str)
def test_integer_functions(dtype: DType) -> None:
    bits = 8 * dtype.size
    for function in ("and", "or", "xor", "shift_left", "shift_right", "floordiv", "mod", "pow"):
        x, y = sample(dtype, 40, 1), sample(dtype, 40, 2)
        if function.startswith("shift"):
            y = (y % bits).astype(dtype.numpy)
        if function == "pow":
            y = (y % 5).astype(dtype.numpy)
        y[y == 0] = 3
        agree(binary(function, dtype), [x, y, np.zeros_like(x)], [40], exact=True)
    for function in ("neg", "abs", "sign", "not", "floor"):
        x = sample(dtype, 40, 3)
        agree(unary(function, dtype), [x, np.zeros_like(x)], [40], exact=True)


@pytest.mark.parametrize("dtype", [F32, F64, F16], ids=str)
def test_functions_of_floats(dtype: DType) -> None:
    x = sample(dtype, 60)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.5]
    for function in EXACT:
        out = np.zeros(60, bool if function == "is_finite" else dtype.numpy)
        agree(unary(function, dtype), [x.copy(), out], [60], exact=True)
    near = (np.abs(sample(dtype, 60, 2)) / 8 + 0.1).astype(dtype.numpy)
    for function in ("exp", "log", "log1p", "sin", "cos", "tanh", "erf"):
        agree(unary(function, dtype), [near.copy(), np.zeros_like(near)], [60])
    for function in ("div", "floordiv", "mod", "pow"):
        agree(binary(function, dtype), [near.copy(), near[::-1].copy(), np.zeros_like(near)], [60])


def test_casts_between_all_types() -> None:
    everything = (BOOL, *NUMBERS)
    for source in everything:
        for target in everything:
            x = sample(source, 30, 3)
            if source.is_float:
                x[:5] = [np.nan, np.inf, -np.inf, 3e4, -3e4]
            agree(cast(source, target), [x, np.zeros(30, target.numpy)], [30], exact=True)


def test_select_and_logic_and_one_rounding() -> None:
    k = KernelMaker(1)
    a, b, p, q = k.load(F32, 0), k.load(F32, 0), k.load(BOOL, 0), k.load(BOOL, 0)
    chosen = k.body.apply("select", k.body.apply("and", p, k.body.apply("not", q)), a, b)
    either = k.body.apply("xor", k.body.apply("or", p, q), k.body.apply("less", p, q))
    fused = k.body.apply("fma", a, b, a)
    kernel = k.map(k.store(chosen, 0), k.store(either, 0), k.store(fused, 0))
    arrays = [sample(F32, 41), sample(F32, 41, 5), sample(BOOL, 41, 6), sample(BOOL, 41, 7)]
    outs = [np.zeros(41, np.float32), np.zeros(41, bool), np.zeros(41, np.float32)]
    agree(kernel, [*arrays, *outs], [41], exact=True)


@pytest.mark.parametrize("fixed", [{}, {1: 12}, {1: 10}, {0: 3, 1: 37}], ids=str)
def test_broadcasts_and_scalars_of_two_axes(fixed: dict[int, int]) -> None:
    k = KernelMaker(2, fixed)
    x, row, column, one = k.load(F32, 0, 1), k.load(F32, -1, 1), k.load(F32, 0, -1), k.load(F32, -1, -1)
    total = k.body.apply("add", k.body.apply("mul", x, row), k.body.apply("sub", column, one))
    kernel = k.map(k.store(total, 0, 1))
    for rows, columns in ((0, 5), (1, 1), (4, 16), (3, 19), (5, 12)):
        shape = (fixed.get(0, rows), fixed.get(1, columns))
        arrays = [sample(F32, shape[0] * shape[1]), sample(F32, shape[1]), sample(F32, shape[0]), sample(F32, 1)]
        agree(kernel, [*arrays, np.zeros(shape, np.float32)], list(shape), exact=True)


def test_transposed_strided_and_reversed() -> None:
    k = KernelMaker(2)
    x = k.load(F32, 1, 0)
    every_other = k.operand(F32, (k.sizes[0], k.sizes[1] * 2), "read")
    y = k.load_at(every_other, (Affine(((0, 1),)), Affine(((1, 2),), dim(1))))
    reverse = k.operand(F32, (k.sizes[0], k.sizes[1]), "read")
    z = k.load_at(reverse, (Affine(((0, 1),)), Affine(((1, -1),), k.sizes[1] - 1)))
    total = k.body.apply("add", k.body.apply("add", x, y), z)
    kernel = k.map(k.store(total, 0, 1), k.store(total, 1, 0))
    for rows, columns in ((1, 1), (5, 17), (9, 16)):
        count = rows * columns
        arrays = [sample(F32, count), sample(F32, 2 * count, 2), sample(F32, count, 3)]
        agree(kernel, [*arrays, np.zeros(count, np.float32), np.zeros(count, np.float32)], [rows, columns], exact=True)


@pytest.mark.parametrize("dtype", few([F32, F64, F16, BOOL], 2), ids=str)
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)], ids=str)
def test_axes_in_another_order_go_through_tiles(order: tuple[int, ...], dtype: DType) -> None:
    for fixed in ({}, {2: 6}, {0: 3, 1: 9, 2: 5}):
        k = KernelMaker(3, fixed)
        turned, plain = k.load(dtype, *order), k.load(dtype, 0, 1, 2)
        kernel = k.map(k.store(k.body.apply("equal", turned, plain), 0, 1, 2), k.store(turned, 0, 1, 2))
        tiled = "tile0 = shared" in write_kernel(kernel, "k0", SIMULATED, guarded=True).source
        assert tiled == (order[2] != 2), "neighbours stay neighbours only where the last axis stays"
        for shape in ((1, 1, 1), (3, 9, 5), (2, 4, 11), (0, 3, 2)):
            sizes = [fixed.get(axis, size) for axis, size in enumerate(shape)]
            count = sizes[0] * sizes[1] * sizes[2]
            outs = [np.zeros(count, bool), np.zeros(count, dtype.numpy)]
            agree(kernel, [sample(dtype, count), sample(dtype, count, 1), *outs], sizes, exact=True)


def test_padding_reads_nothing_outside() -> None:
    k = KernelMaker(2)
    source = k.operand(F32, (dim(Symbol("d2")), dim(Symbol("d3"))), "read")
    outside = k.body.number(-1.0, F32)
    index = (Affine(((0, 1),), dim(-2)), Affine(((1, 1),), dim(-1)))
    x = k.load_at(source, index, Mask(((0, 1), (1, 1)), outside))
    spread = k.load_at(source, (Affine(((0, 1),)), Affine(((1, 1),))), Mask(((0, 1), (1, 3)), outside))
    kernel = k.map(k.store(x, 0, 1), k.store(spread, 0, 1))
    for rows, columns in ((3, 4), (5, 9), (1, 1), (0, 2)):
        shape = (rows + 4, 3 * columns + 1)
        arrays = [sample(F32, rows * columns), np.zeros(shape, np.float32), np.zeros(shape, np.float32)]
        agree(kernel, arrays, [*shape, rows, columns], exact=True)


@pytest.mark.parametrize("ids", [I32, I64, U8], ids=str)
@pytest.mark.parametrize("width", [8, 9])
def test_gathered_rows_and_what_is_out_of_range(ids: DType, width: int) -> None:
    k = KernelMaker(2)
    table = k.operand(F32, (dim(Symbol("d2")), k.sizes[1]), "read")
    row = k.load_at(table, (Computed(k.load(ids, 0), 1), Affine(((1, 1),))))
    kernel = k.map(k.store(row, 0, 1))
    low = 0 if ids.kind == "unsigned" else -20
    numbers = np.random.default_rng(0).integers(low, 20, 15).astype(ids.numpy)
    out = np.zeros((15, width), np.float32)
    agree(kernel, [sample(F32, 20 * width), numbers, out], [15, width, 20], exact=True)
    numbers[4] = 20
    out = np.full((15, width), 7, np.float32)
    text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
    error = run_text(text, [sample(F32, 20 * width), numbers, out], [15, width, 20])
    assert error.tolist() == [2, 20, 20]
    assert (out[4] == 7).all(), "an element that failed is not stored"
    after = out.copy()
    run_text(text, [sample(F32, 20 * width, 5), numbers, out], [15, width, 20], error=error)
    np.testing.assert_array_equal(out, after, "nothing is written after a fault")


def test_division_by_zero_is_reported() -> None:
    kernel = binary("floordiv", I32, fault=2)
    a, b = sample(I32, 40), np.ones(40, np.int32)
    agree(kernel, [a, b, np.zeros(40, np.int32)], [40], exact=True)
    b[37] = 0
    error = run_text(write_kernel(kernel, "k0", SIMULATED, guarded=False), [a, b, np.zeros(40, np.int32)], [40])
    assert error[0] == 3


def test_index_values_sizes_and_narrow_types() -> None:
    k = KernelMaker(2)
    i, j = k.body.axis(0), k.body.axis(1)
    linear = k.body.apply("add", k.body.apply("mul", i, k.body.size(k.sizes[1])), j)
    even = k.body.apply("equal", k.body.apply("mod", linear, k.body.number(2, I64)), k.body.number(0, I64))
    value = k.body.apply("select", even, k.body.cast(k.load(F32, 0, 1), F64), k.body.cast(linear, F64))
    kernel = k.map(k.store(value, 0, 1), k.store(k.body.cast(even, I8), 0, 1), k.store(even, 0, 1))
    for rows, columns in ((7, 21), (3, 16)):
        shape = (rows, columns)
        outs = [np.zeros(shape), np.zeros(shape, np.int8), np.zeros(shape, bool)]
        agree(kernel, [sample(F32, rows * columns), *outs], list(shape), exact=True)


def test_updates_in_place() -> None:
    k = KernelMaker(1)
    state = k.operand(BF16, k.over(0), "update")
    new = k.body.apply("sub", k.load_at(state, axis_index(0)), k.load(BF16, 0))
    store = k.store(new, 0)
    kernel = k.map(type(store)(state, store.index, new))
    kernel = LoopKernel(kernel.operands[:2], kernel.axes, kernel.outer, kernel.stages)
    agree(kernel, [sample(BF16, 50, 1), sample(BF16, 50, 2)], [50], exact=True)


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_random_numbers_are_those_of_the_definition(distribution: str, dtype: DType) -> None:
    k = KernelMaker(1)
    element = k.body.apply("add", k.body.axis(0), k.load(I64, -1))
    keys = [k.load(U64, -1) for _ in range(3)]
    kernel = k.map(k.store(k.body.append(Philox(distribution), (element, *keys), dtype), 0))
    key, draw, first, count = (0x0123456789ABCDEF, 0xFEDCBA9876543210), 3, 5, 21
    told = [np.array([first], np.int64), *(np.array([one], np.uint64) for one in (*key, draw))]
    out = np.zeros(count, dtype.numpy)
    run_text(write_kernel(kernel, "k0", SIMULATED, guarded=False), [*told, out], [count])
    expected = philox.numbers(distribution, dtype, (first + count,), key, draw)[first:]
    if distribution == "uniform":
        np.testing.assert_array_equal(out, expected)
    else:
        compare(out, expected, largest(expected))


def test_equal_kernels_have_equal_texts_and_wide_accesses_where_they_fit() -> None:
    texts = [write_kernel(binary("add", F32), "k0", DEVICE, guarded=True) for _ in range(2)]
    assert texts[0] == texts[1]
    assert "load4_f32(a, " in texts[0].source and "store4_f32(c, " in texts[0].source
    halves = write_kernel(binary("add", F16), "k0", DEVICE, guarded=True).source
    assert "load8_u16(a, " in halves and "if point < d0" in halves, "a tail of single elements"
    k = KernelMaker(2, {1: 10})
    row = k.map(k.store(k.body.apply("add", k.load(F32, 0, 1), k.load(F32, -1, 1)), 0, 1))
    assert "load" not in write_kernel(row, "k0", DEVICE, guarded=True).source, "rows of 10 are no whole groups"


def test_mixed_widths_take_groups_of_the_widest() -> None:
    k = KernelMaker(1)
    value = k.body.apply("add", k.body.cast(k.load(U8, 0), F32), k.body.cast(k.load(dtypes.I16, 0), F32))
    kernel = k.map(k.store(value, 0), k.store(k.body.cast(value, F16), 0))
    source = write_kernel(kernel, "k0", SIMULATED, guarded=True).source
    assert all(part in source for part in ("load4_u8(a", "load4_i16(b", "store4_f32(c", "store4_u16(d"))
    outs = [np.zeros(43, np.float32), np.zeros(43, np.float16)]
    agree(kernel, [sample(U8, 43), sample(dtypes.I16, 43), *outs], [43], exact=True)


def test_names_of_many_operands_clash_with_nothing() -> None:
    k = KernelMaker(1)
    total = k.load(F32, 0)
    for _ in range(27):
        total = k.body.apply("maximum", total, k.load(F32, 0))
    kernel = k.map(k.store(total, 0))
    agree(kernel, [*(sample(F32, 21, seed) for seed in range(28)), np.zeros(21, np.float32)], [21], exact=True)
