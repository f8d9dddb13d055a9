"""Contractions that a library of matrix products can make: what is described, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import BF16, F16, F32, F64, I32
from dfc.kernels.form import ContractKernel
from dfc.kernels.matching.finishing import finishing, is_rounding_first
from dfc.kernels.matching.products import LibraryMatrix, LibraryProduct, library_product
from tests.support.kernel_texts import interpret
from tests.targets.cpu.compile.product.test_contraction import Maker, plain
from tests.targets.cuda.compile.kernels.test_write_contract import LAYOUTS, operands


class Library:
    """What a library makes of a description."""

    def __init__(self, found: LibraryProduct, arrays: list[np.ndarray], sizes: tuple[int, ...]) -> None:
        self.found, self.flat = found, [array.reshape(-1) for array in arrays]
        self.known = {symbol: sizes[int(symbol.name[1:])] for one in _formulas(found) for symbol in one.symbols()}
        self.rows, self.columns, self.depth = map(self.value, (found.rows, found.columns, found.depth))
        self.counts = [self.value(one) for one in found.batch]

    def value(self, size: Dim) -> int:
        return size.evaluate(self.known)

    def sums(self) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Each product of the batch, by columns, with its place along each level."""
        for place in np.ndindex(*self.counts):
            first = self.matrix(self.found.first, place, (self.rows, self.depth))
            second = self.matrix(self.found.second, place, (self.depth, self.columns))
            yield place, first.astype(float) @ second.astype(float)

    def matrix(self, one: LibraryMatrix, place: tuple[int, ...], shape: tuple[int, int]) -> np.ndarray:
        """By columns, as BLAS reads it."""
        inner, outer = reversed(shape) if one.transposed else shape
        start, leading = self.start(one, place), self.value(one.leading)
        assert leading >= inner
        flat = self.flat[one.operand]
        made = np.stack([flat[start + i * leading : start + i * leading + inner] for i in range(outer)], 1)
        return made.T if one.transposed else made

    def start(self, one: LibraryMatrix, place: tuple[int, ...]) -> int:
        return self.value(one.offset) + sum(i * self.value(s) for i, s in zip(place, one.strides, strict=True))

    def whole(self) -> np.ndarray:
        """The result's memory."""
        whole = self.found.whole
        assert whole is not None
        out = self.flat[whole.result.operand].copy()
        leading = self.value(whole.result.leading)
        for place, product in self.sums():
            made = whole.scale * product
            if whole.added is not None:
                made = made + whole.sign * self.matrix(whole.added, place, (self.rows, self.columns)).astype(float)
            if whole.bias is not None:
                offset = self.value(whole.bias[1])
                made = made + self.flat[whole.bias[0]][offset : offset + self.rows].astype(float)[:, None]
            start = self.start(whole.result, place)
            for column in range(self.columns):
                out[start + column * leading : start + column * leading + self.rows] = made[:, column]
        return out


def _formulas(found: LibraryProduct) -> Iterator[Dim]:
    yield from (found.rows, found.columns, found.depth, *found.batch)
    whole = found.whole
    more = [one for one in (whole.result, whole.added) if one is not None] if whole is not None else []
    for one in (found.first, found.second, *more):
        yield from (one.leading, *one.strides, one.offset)


CLOSE = {2: 2.0**-7, 4: 2.0**-18, 8: 2.0**-48}
"""By the bytes of an element: sums of some ten numbers of about 1, in another order."""


def described(kernel: ContractKernel) -> LibraryProduct:
    found = library_product(kernel)
    assert isinstance(found, LibraryProduct), found
    return found


def check(kernel: ContractKernel, sizes: tuple[int, ...]) -> LibraryProduct:
    """The whole description, and the sums with what is left to do, against what the kernel means."""
    found = described(kernel)
    assert found.whole is not None, found.apart
    arrays = operands(kernel, sizes)
    made = Library(found, arrays, sizes).whole()
    wanted = [array.copy() for array in arrays]
    assert interpret(kernel, wanted, sizes) == 0
    close(made, wanted[found.whole.result.operand].reshape(-1))
    check_apart(kernel, sizes)
    return found


def close(made: np.ndarray, wanted: np.ndarray) -> None:
    tolerance = CLOSE[wanted.dtype.itemsize]
    np.testing.assert_allclose(made.astype(float), wanted.astype(float), rtol=tolerance, atol=tolerance * 100)


def check_apart(kernel: ContractKernel, sizes: tuple[int, ...]) -> LibraryProduct:
    """The sums by the library, and what is left by a kernel."""
    found = described(kernel)
    arrays = operands(kernel, sizes)
    wanted = [array.copy() for array in arrays]
    assert interpret(kernel, wanted, sizes) == 0
    sums = [product.T.ravel() for _, product in Library(found, arrays, sizes).sums()]
    factor = kernel.operands[kernel.a.operand].dtype
    dtype = factor if is_rounding_first(kernel, factor) else kernel.accumulator
    after, used = finishing(kernel, by_rows=found.by_rows, sums=dtype)
    known = {Symbol(f"d{n}"): size for n, size in enumerate(sizes)}
    shape = [size.evaluate(known) for size in after.operands[0].shape]
    first = np.concatenate(sums).astype(dtype.numpy).reshape(shape)
    given = [first, *(arrays[number] for number in used[1:])]
    assert interpret(after, given, sizes) == 0
    for number, array in zip(used[1:], given[1:], strict=True):
        close(array.reshape(-1), wanted[number].reshape(-1))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_described(layout: tuple[bool, bool, bool]) -> None:
    check(plain(F32, F32, *layout), (3, 5, 4))
    check(plain(F64, F64, *layout), (3, 5, 4))


def test_batches_are_strides() -> None:
    x = Maker(2)
    a, b = x.factor(F32, 0, 1, x.m, x.k), x.factor(F32, x.k, x.n)
    found = check(x.finish(a, b, F32, x.store(x.accumulated(F32), 0, 1, x.m, x.n)), (2, 3, 4, 5, 6))
    assert [stride.constant for stride in found.first.strides] == [0]


def heads(*, interleaved: bool) -> Maker:
    """A batch of two axes, of which factors have the second between rows and columns."""
    x = Maker(2)
    a, b = x.factor(F32, 0, x.m, 1, x.k), x.factor(F32, 0, x.n, 1, x.k)
    order = (0, x.m, 1, x.n) if interleaved else (0, 1, x.m, x.n)
    return x, x.finish(a, b, F32, x.store(x.accumulated(F32), *order))


@pytest.mark.parametrize("interleaved", [True, False])
def test_axes_of_a_batch_that_do_not_lie_evenly_are_two_levels(interleaved: bool) -> None:
    _, kernel = heads(interleaved=interleaved)
    found = check(kernel, (2, 3, 4, 5, 6))
    assert [str(one) for one in found.batch] == ["d0", "d1"]


def test_the_bias_lies_along_the_rows() -> None:
    x = Maker()
    a, b = x.factor(BF16, x.m, x.k), x.factor(BF16, x.k, x.n)
    summed = x.body.apply("add", x.accumulated(F32), x.body.cast(x.load(BF16, x.n), F32))
    found = check(x.finish(a, b, F32, x.store(x.body.cast(summed, BF16), x.m, x.n)), (3, 5, 4))
    assert found.whole is not None and found.whole.bias is not None


def ended(kind: str) -> ContractKernel:
    """A product of f32 with something after it."""
    x = Maker(1 if kind == "interleaved batch" else 0)
    batch = x.batch
    a, b = x.factor(F32, *batch, x.m, x.k), x.factor(F32, *batch, x.k, x.n)
    total, body = x.accumulated(F32), x.body
    other, row = (lambda: x.load(F32, x.m, x.n)), (lambda: x.load(F32, x.n))
    made = {
        "scaled": lambda: body.apply("mul", total, body.number(0.375, F32)),
        "negative": lambda: body.apply("neg", total),
        "added": lambda: body.apply("add", other(), total),
        "taken away": lambda: body.apply("sub", other(), total),
        "less": lambda: body.apply("sub", total, other()),
        "added twice": lambda: body.apply("add", body.apply("add", total, other()), row()),
        "negative and added": lambda: body.apply("add", other(), body.apply("mul", total, body.number(-1, F32))),
        "tanh": lambda: body.apply("tanh", total),
        "relu": lambda: body.apply("maximum", total, body.number(0, F32)),
        "scaled by nothing": lambda: body.apply("mul", total, body.number(0, F32)),
        "scaled and added": lambda: body.apply("add", other(), body.apply("mul", total, body.number(0.1, F32))),
        "added turned": lambda: body.apply("add", total, x.load(F32, x.n, x.m)),
        "column bias": lambda: body.apply("add", total, x.load(F32, x.m)),
        "added first": lambda: body.apply("mul", body.apply("add", total, row()), body.number(0.5, F32)),
    }[kind]()
    return x.finish(a, b, F32, x.store(made, x.m, x.n))


@pytest.mark.parametrize(
    ("kind", "scale", "sign", "bias"),
    [
        ("scaled", 0.375, 0, False),
        ("negative", -1.0, 0, False),
        ("added", 1.0, 1, False),
        ("taken away", -1.0, 1, False),
        ("less", 1.0, -1, False),
        ("added twice", 1.0, 1, True),
        ("negative and added", -1.0, 1, False),
    ],
)
def test_what_a_library_does_with_sums_is_described(kind: str, scale: float, sign: int, bias: bool) -> None:
    whole = check(ended(kind), (3, 5, 4)).whole
    assert whole is not None
    assert (whole.scale, whole.sign, whole.bias is not None) == (scale, sign, bias)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("tanh", "more than a library does: tanh"),
        ("relu", "more than a library does: maximum"),
        ("scaled by nothing", "more than a library does: mul"),
        ("scaled and added", "a library may round a factor and a sum together"),
        ("added turned", "more than a library does: add"),
        ("column bias", "more than a library does: add"),
        ("added first", "more than a library does: add"),
    ],
)
def test_what_a_library_does_not_do_is_left_to_a_kernel_after_it(kind: str, reason: str) -> None:
    found = check_apart(ended(kind), (3, 5, 4))
    assert found.whole is None and reason in found.apart


def test_a_result_that_is_added_to_is_its_own_matrix() -> None:
    x = Maker()
    a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
    old = x.load(F32, x.m, x.n)
    kernel = x.finish(a, b, F32, x.store(x.body.apply("add", old, x.accumulated(F32)), x.m, x.n))
    store = replace(kernel.stores[0], operand=2)
    made = (*kernel.operands[:2], replace(kernel.operands[2], access="update"))
    whole = check(replace(kernel, operands=made, stores=(store,)), (3, 5, 4)).whole
    assert whole is not None and whole.added == whole.result


def test_two_results_and_rounding_in_between_are_a_kernel_after_it() -> None:
    x = Maker()
    a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
    total = x.accumulated(F32)
    both = x.finish(a, b, F32, x.store(total, x.m, x.n), x.store(total, x.n, x.m))
    assert check_apart(both, (3, 5, 4)).apart == "it has several results"
    x = Maker()
    a, b = x.factor(BF16, x.m, x.k), x.factor(BF16, x.k, x.n)
    rounded = x.body.apply("add", x.body.cast(x.accumulated(F32), BF16), x.load(BF16, x.n))
    kernel = x.finish(a, b, F32, x.store(rounded, x.m, x.n))
    assert check_apart(kernel, (3, 5, 4)).whole is None and is_rounding_first(kernel, BF16)


def test_results_that_lie_apart_are_stored_by_a_kernel_after_it() -> None:
    x = Maker(1)
    a, b = x.factor(F32, 0, x.m, x.k), x.factor(F32, 0, x.k, x.n)
    kernel = x.finish(a, b, F32, x.store(x.accumulated(F32), x.m, x.n, 0))
    assert "its result is no matrix" in check_apart(kernel, (2, 3, 5, 4)).apart.replace("the result", "its result")


def undescribed() -> list[tuple[ContractKernel, str]]:
    """Products whose factors no library multiplies."""
    x = Maker(3)
    a, b = x.factor(F32, 0, x.m, 1, x.k, 2), x.factor(F32, 0, x.k, 1, x.n, 2)
    scattered = x.finish(a, b, F32, x.store(x.accumulated(F32), 0, 1, 2, x.m, x.n))
    x = Maker()
    mixed = x.finish(x.factor(BF16, x.m, x.k), x.factor(F16, x.k, x.n), F32, x.store(x.accumulated(F32), x.m, x.n))
    return [
        (plain(I32, I32, False, False), "it multiplies i32, summed in i32"),
        (mixed, "it multiplies bf16 and f16, summed in f32"),
        (scattered, "its batch has 3 axes that do not lie evenly in each other"),
    ]


@pytest.mark.parametrize(("kernel", "reason"), undescribed())
def test_what_no_library_multiplies_is_not_described(kernel: ContractKernel, reason: str) -> None:
    assert library_product(kernel) == reason
