"""Contractions: layouts, batches, epilogues, element types, edges of the sizes; equal bits on one and two threads."""

import threading

import numpy as np
import pytest

from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import BF16, F16, F32, F64, I8, I32, DType
from dfc.kernels.body import Accumulated, Affine, BodyBuilder, Load
from dfc.kernels.form import Axis, ContractKernel, MatrixOperand, Operand, Store
from tests.support.programs import Runner, axis_index
from tests.targets.cpu.compile.elementwise.test_kernels import sample

SIZES = ((1, 1, 1), (3, 5, 7), (8, 48, 16), (17, 33, 100), (100, 10, 784), (65, 129, 300), (1, 40, 20), (40, 1, 20))


class Maker:
    """A contraction under construction over batch axes, then m, n, k."""

    def __init__(self, batch: int = 0, sizes: tuple[int, ...] | None = None) -> None:
        self.rank = batch + 3
        known = sizes or (None,) * self.rank
        self.sizes = [dim(Symbol(f"d{i}")) if n is None else dim(n) for i, n in enumerate(known)]
        self.batch = tuple(range(batch))
        self.m, self.n, self.k = range(batch, batch + 3)
        self.operands: list[Operand] = []
        self.body = BodyBuilder()

    def operand(self, dtype: DType, axes: tuple[int, ...], access: str = "read") -> int:
        self.operands.append(Operand(dtype, tuple(self.sizes[a] for a in axes), access))
        return len(self.operands) - 1

    def factor(self, dtype: DType, *axes: int) -> MatrixOperand:
        return MatrixOperand(self.operand(dtype, axes), axis_index(*axes))

    def load(self, dtype: DType, *axes: int) -> int:
        return self.body.append(Load(self.operand(dtype, axes), axis_index(*axes)), (), dtype)

    def store(self, value: int, *axes: int) -> Store:
        return Store(self.operand(self.body.dtype(value), axes, "write"), axis_index(*axes), value)

    def finish(self, a: MatrixOperand, b: MatrixOperand, accumulator: DType, *stores: Store) -> ContractKernel:
        axes = tuple(Axis(f"a{i}", size) for i, size in enumerate(self.sizes))
        return ContractKernel(
            tuple(self.operands), axes, a, b, accumulator, tuple(self.body.instructions), tuple(stores)
        )

    def accumulated(self, dtype: DType) -> int:
        return self.body.append(Accumulated(), (), dtype)


def plain(dtype: DType, accumulator: DType, a_turned: bool, b_turned: bool, c_turned: bool = False) -> ContractKernel:
    x = Maker()
    a = x.factor(dtype, *((x.k, x.m) if a_turned else (x.m, x.k)))
    b = x.factor(dtype, *((x.n, x.k) if b_turned else (x.k, x.n)))
    out = x.store(x.accumulated(accumulator), *((x.n, x.m) if c_turned else (x.m, x.n)))
    return x.finish(a, b, accumulator, out)


def bound(a: np.ndarray, b: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    wide = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return 2 * a.shape[-1] * np.finfo(dtype).eps * wide + 1e-30


def turned(x: np.ndarray, wanted: bool) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(-1, -2)) if wanted else x


@pytest.mark.parametrize("dtype", [F32, F64])
def test_every_layout_and_size(dtype: DType) -> None:
    layouts = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    runner = Runner([plain(dtype, dtype, *layout) for layout in layouts])
    for m, n, k in (*SIZES, (5, 7, 0), (0, 3, 4), (4, 0, 3)):
        a, b = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        for number, (a_turned, b_turned, c_turned) in enumerate(layouts):
            out = np.full((n, m) if c_turned else (m, n), 9, dtype.numpy)
            arrays = [turned(a, a_turned), turned(b, b_turned), out]
            assert runner.run(number, arrays, [m, n, k]) == 0
            error = np.abs(turned(out, c_turned).astype(np.float64) - expected)
            assert np.all(error <= bound(a, b, dtype.numpy.type)), (m, n, k, layouts[number])


def test_other_element_types_accumulate_in_their_type() -> None:
    runner = Runner([plain(F16, F32, False, False), plain(I32, I32, False, True), plain(I8, I8, True, False)])
    for m, n, k in ((3, 5, 7), (17, 33, 100)):
        a, b = sample(F16, m * k, 1).reshape(m, k), sample(F16, k * n, 2).reshape(k, n)
        out = np.zeros((m, n), np.float32)
        assert runner.run(0, [a, b, out], [m, n, k]) == 0
        exact = a.astype(np.float64) @ b.astype(np.float64)
        assert np.all(np.abs(out - exact) <= bound(a, b))
        for number, dtype, a_turned in ((1, I32, False), (2, I8, True)):
            a_, b_ = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
            whole = np.zeros((m, n), dtype.numpy)
            arrays = [turned(a_, a_turned), turned(b_, not a_turned), whole]
            assert runner.run(number, arrays, [m, n, k]) == 0
            assert np.array_equal(whole, a_ @ b_), dtype


def test_half_factors_in_every_layout() -> None:
    kinds = [(d, a, b) for d in (F16, BF16) for a in (False, True) for b in (False, True)]
    runner = Runner([plain(d, F32, a, b) for d, a, b in kinds])
    for m, n, k in ((1, 1, 1), (5, 7, 0), (17, 33, 100), (230, 800, 530)):
        for number, (dtype, a_turned, b_turned) in enumerate(kinds):
            a, b = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            for threads in (1, 2):
                out = np.full((m, n), 9, np.float32)
                arrays = [turned(a, a_turned), turned(b, b_turned), out]
                assert runner.run(number, arrays, [m, n, k], threads=threads) == 0
                assert np.all(np.abs(out - wide_a @ wide_b) <= bound(wide_a, wide_b)), (dtype, m, n, k)


def dense(sizes: tuple[int, ...] | None = None, result: DType = F32) -> ContractKernel:
    """relu(x w + bias), and the sums themselves."""
    x = Maker(0, sizes)
    a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
    total = x.body.apply("add", x.accumulated(F32), x.load(F32, x.n))
    active = x.body.apply("maximum", total, x.body.number(0.0, F32))
    return x.finish(a, b, F32, x.store(x.body.cast(active, result), x.m, x.n))


def test_bias_and_activation_in_the_epilogue() -> None:
    runner = Runner([dense(), dense((100, 10, 784)), dense(result=F16), dense(result=F64)])
    for number, sizes in (
        (0, (100, 10, 784)),
        (0, (130, 77, 65)),
        (1, (100, 10, 784)),
        (2, (9, 40, 20)),
        (3, (5, 9, 7)),
    ):
        m, n, k = sizes
        a, b, bias = sample(F32, m * k, 1).reshape(m, k), sample(F32, k * n, 2).reshape(k, n), sample(F32, n, 3)
        out = np.zeros((m, n), (np.float32, np.float32, np.float16, np.float64)[number])
        assert runner.run(number, [a, b, bias, out], list(sizes)) == 0
        exact = np.maximum(a.astype(np.float64) @ b + bias, 0)
        limit = bound(a, b) + 1e-6 * np.abs(bias)
        if number == 2:
            limit = limit + np.abs(exact) * 2.0**-10
        assert np.all(np.abs(out - exact) <= limit), (number, sizes)


def test_large_tiles_through_the_workspace_and_threads() -> None:
    runner = Runner([plain(F32, F32, False, False, True), plain(F32, F32, False, False), dense(result=F16)])
    m, n, k = 403, 1601, 70
    a, b = sample(F32, m * k, 1).reshape(m, k), sample(F32, k * n, 2).reshape(k, n)
    for number, shape, dtype in ((0, (n, m), np.float32), (1, (m, n), np.float32), (2, (m, n), np.float16)):
        outs = []
        for threads in (1, 2):
            out = np.zeros(shape, dtype)
            arrays = [a, b, out] if number < 2 else [a, b, np.zeros(n, np.float32), out]
            assert runner.run(number, arrays, [m, n, k], threads=threads) == 0
            outs.append(out)
        assert outs[0].tobytes() == outs[1].tobytes()
        if number < 2:
            assert np.all(np.abs(turned(outs[0], number == 0) - a.astype(np.float64) @ b) <= bound(a, b))


@pytest.mark.parametrize(
    "sizes, is_shared",
    [((1, 800, 250), True), ((800, 1, 250), True), ((1, 700, 260), False), ((2, 800, 120), False)],
    ids=str,
)
def test_wide_rows_are_shared_out_with_equal_bits(sizes: tuple[int, int, int], is_shared: bool) -> None:
    m, n, k = sizes
    runner = Runner([dense(sizes)])
    assert ("call void @pool_run(" in runner.listing) == is_shared
    x, w, b = sample(F32, m * k, 1).reshape(m, k), sample(F32, k * n, 2).reshape(k, n), sample(F32, n, 3)
    outs = [np.zeros((m, n), np.float32) for _ in range(3)]
    for out, threads in zip(outs, (1, 2, 8), strict=True):
        assert runner.run(0, [x, w, b, out], [], threads=threads) == 0
    assert np.array_equal(outs[0], outs[1]) and np.array_equal(outs[0], outs[2])
    assert np.all(np.abs(outs[0] - np.maximum(x.astype(np.float64) @ w + b, 0)) <= bound(x, w) + 1e-6 * np.abs(b))


def test_result_in_the_place_of_an_epilogue_operand() -> None:
    x = Maker()
    a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
    state = x.operand(F32, (x.m, x.n), "update")
    old = x.body.append(Load(state, axis_index(x.m, x.n)), (), F32)
    new = x.body.apply("sub", old, x.accumulated(F32))
    runner = Runner([x.finish(a, b, F32, Store(state, axis_index(x.m, x.n), new))])
    for m, n, k in ((230, 90, 40), (5, 7, 3), (784, 100, 100)):
        a_, b_ = sample(F32, m * k, 1).reshape(m, k), sample(F32, k * n, 2).reshape(k, n)
        w, outs = sample(F32, m * n, 3).reshape(m, n), []
        for threads in (1, 2):
            outs.append(w.copy())
            assert runner.run(0, [a_, b_, outs[-1]], [m, n, k], threads=threads) == 0
        assert np.array_equal(*outs)
        error = np.abs(outs[0] - (w - a_.astype(np.float64) @ b_))
        assert np.all(error <= bound(a_, b_) + 1e-6 * np.abs(w))


def test_batches_with_any_order_of_axes() -> None:
    x = Maker(2)
    head, step = x.batch
    a, b = x.factor(F32, head, x.m, step, x.k), x.factor(F32, head, step, x.n, x.k)
    scaled = x.body.apply("mul", x.accumulated(F32), x.body.number(0.5, F32))
    kernel = x.finish(a, b, F32, x.store(scaled, head, step, x.m, x.n))
    runner = Runner([kernel])
    for sizes in ((2, 3, 4, 5, 6), (4, 2, 40, 33, 50), (1, 1, 128, 130, 64)):
        h, s, m, n, k = sizes
        a_, b_ = sample(F32, h * m * s * k, 1).reshape(h, m, s, k), sample(F32, h * s * n * k, 2).reshape(h, s, n, k)
        expected = np.einsum("hmsk,hsnk->hsmn", a_.astype(np.float64), b_) * 0.5
        limit = bound(a_.transpose(0, 2, 1, 3), b_.swapaxes(-1, -2))
        for threads in (1, 2):
            out = np.zeros((h, s, m, n), np.float32)
            assert runner.run(0, [a_, b_, out], list(sizes), threads=threads) == 0
            assert np.all(np.abs(out - expected) <= limit)


def test_fixed_single_rows_and_columns() -> None:
    kernels = []
    for sizes, b_turned in (((1, None, None), False), ((1, None, None), True), ((None, 1, None), False)):
        x = Maker(0, sizes)
        b = x.factor(F32, *((x.n, x.k) if b_turned else (x.k, x.n)))
        a = x.factor(F32, x.m, x.k)
        kernels.append((x.finish(a, b, F32, x.store(x.accumulated(F32), x.m, x.n)), sizes, b_turned))
    runner = Runner([kernel for kernel, *_ in kernels])
    for number, (_, fixed, b_turned) in enumerate(kernels):
        m, n, k = (known or other for known, other in zip(fixed, (37, 55, 200), strict=True))
        a_, b_ = sample(F32, m * k, 1).reshape(m, k), sample(F32, k * n, 2).reshape(k, n)
        out = np.zeros((m, n), np.float32)
        assert runner.run(number, [turned(b_, b_turned), a_, out], [m, n, k]) == 0
        assert np.all(np.abs(out - a_.astype(np.float64) @ b_) <= bound(a_, b_))


def test_offset_and_strided_factors() -> None:
    x = Maker()
    wide: Dim = x.sizes[x.k] * 2 + 3
    x.operands.append(Operand(F32, (x.sizes[x.m] + 1, wide), "read"))
    a = MatrixOperand(0, (Affine(((x.m, 1),), dim(1)), Affine(((x.k, 2),), dim(3))))
    b = x.factor(F32, x.k, x.n)
    runner = Runner([x.finish(a, b, F32, x.store(x.accumulated(F32), x.m, x.n))])
    m, n, k = 9, 20, 31
    big, b_ = sample(F32, (m + 1) * (2 * k + 3)).reshape(m + 1, -1), sample(F32, k * n, 2).reshape(k, n)
    out = np.zeros((m, n), np.float32)
    assert runner.run(0, [big, b_, out], [m, n, k]) == 0
    a_ = big[1:, 3 : 3 + 2 * k : 2]
    assert np.all(np.abs(out - a_.astype(np.float64) @ b_) <= bound(a_, b_))


def test_calls_may_overlap() -> None:
    runner = Runner([plain(F32, F32, False, True, True)], threads=2)
    m, n, k = 60, 70, 300
    a = [sample(F32, m * k, i).reshape(m, k) for i in range(4)]
    b = sample(F32, n * k, 9).reshape(n, k)
    alone = [np.zeros((n, m), np.float32) for _ in a]
    for x, out in zip(a, alone, strict=True):
        assert runner.run(0, [x, b, out], [m, n, k], threads=2) == 0
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            out = np.zeros((n, m), np.float32)
            if runner.run(0, [a[number], b, out], [m, n, k], threads=2) or out.tobytes() != alone[number].tobytes():
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
