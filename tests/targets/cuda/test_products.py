"""Contractions that a library of matrix products can make: what is described, and what is not."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import BF16, F32, F64, I32
from dfc.kernels.form import ContractKernel
from dfc_targets.cuda.products import LibraryMatrix, LibraryProduct, library_product
from tests.support.kernel_texts import interpret
from tests.targets.cpu.test_lower_contract import Maker, plain
from tests.targets.cuda.test_write_contract import LAYOUTS, operands


def executed(found: LibraryProduct, arrays: list[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    """What a library makes of the description, as the result's memory."""
    known = {symbol: sizes[int(symbol.name[1:])] for one in _formulas(found) for symbol in one.symbols()}
    flat = [array.reshape(-1) for array in arrays]
    rows, columns, depth, batch = (one.evaluate(known) for one in (found.rows, found.columns, found.depth, found.batch))
    out = flat[found.result.operand].copy()
    for number in range(batch):
        first, second = (
            _matrix(one, flat, number, shape, known)
            for one, shape in ((found.first, (rows, depth)), (found.second, (depth, columns)))
        )
        made = first.astype(float) @ second.astype(float)
        if found.bias is not None:
            offset = found.bias[1].evaluate(known)
            made = made + flat[found.bias[0]][offset : offset + rows].astype(float)[:, None]
        made = np.maximum(made, 0) if found.epilogue.startswith("relu") else made
        start = found.result.offset.evaluate(known) + number * found.result.stride.evaluate(known)
        leading = found.result.leading.evaluate(known)
        for column in range(columns):
            out[start + column * leading : start + column * leading + rows] = made[:, column]
    return out


def _formulas(found: LibraryProduct) -> Iterator[Dim]:
    yield from (found.rows, found.columns, found.depth, found.batch)
    for one in (found.first, found.second, found.result):
        yield from (one.leading, one.stride, one.offset)


def _matrix(
    one: LibraryMatrix, flat: list[np.ndarray], number: int, shape: tuple[int, int], known: Mapping[Symbol, int]
) -> np.ndarray:
    """By columns, as BLAS reads it."""
    inner, outer = reversed(shape) if one.transposed else shape
    start = one.offset.evaluate(known) + number * one.stride.evaluate(known)
    leading = one.leading.evaluate(known)
    assert leading >= inner
    made = np.stack([flat[one.operand][start + i * leading : start + i * leading + inner] for i in range(outer)], 1)
    return made.T if one.transposed else made


def check(kernel: ContractKernel, sizes: tuple[int, ...], epilogue: str) -> LibraryProduct:
    """The description against what the kernel means."""
    found = library_product(kernel)
    assert found is not None
    assert found.epilogue == epilogue
    arrays = operands(kernel, sizes)
    made = executed(found, arrays, sizes)
    assert interpret(kernel, arrays, sizes) == 0
    wanted = arrays[found.result.operand].reshape(-1)
    close = {2: 2.0**-7, 4: 2.0**-18, 8: 2.0**-48}[wanted.dtype.itemsize]
    np.testing.assert_allclose(made.astype(float), wanted.astype(float), rtol=close, atol=close * 100)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_described(layout: tuple[bool, bool, bool]) -> None:
    check(plain(F32, F32, *layout), (3, 5, 4), "none")
    check(plain(F64, F64, *layout), (3, 5, 4), "none")


def test_batches_are_strides() -> None:
    x = Maker(2)
    a, b = x.factor(F32, 0, 1, x.m, x.k), x.factor(F32, x.k, x.n)
    found = check(x.finish(a, b, F32, x.store(x.accumulated(F32), 0, 1, x.m, x.n)), (2, 3, 4, 5, 6), "none")
    assert found.first.stride.constant == 0


def test_the_bias_lies_along_the_rows() -> None:
    x = Maker()
    a, b = x.factor(BF16, x.m, x.k), x.factor(BF16, x.k, x.n)
    summed = x.body.apply("add", x.accumulated(F32), x.body.cast(x.load(BF16, x.n), F32))
    check(x.finish(a, b, F32, x.store(x.body.cast(summed, BF16), x.m, x.n)), (3, 5, 4), "bias")


def test_relu_after_a_bias() -> None:
    x = Maker()
    a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
    summed = x.body.apply("add", x.accumulated(F32), x.load(F32, x.n))
    clipped = x.body.apply("maximum", summed, x.body.number(0, F32))
    check(x.finish(a, b, F32, x.store(clipped, x.m, x.n)), (3, 5, 4), "relu_bias")


def undescribed() -> list[ContractKernel]:
    """Products with something that a library does not do, or does otherwise."""
    made = [plain(I32, I32, False, False)]
    for kind in ("tanh", "column bias", "rounded before the bias", "two results", "interleaved batch"):
        x = Maker(1 if kind == "interleaved batch" else 0)
        batch = x.batch
        a, b = x.factor(BF16, *batch, x.m, x.k), x.factor(BF16, *batch, x.k, x.n)
        total = x.accumulated(F32)
        stores = []
        if kind == "tanh":
            stores = [x.store(x.body.apply("tanh", total), x.m, x.n)]
        elif kind == "column bias":
            stores = [x.store(x.body.apply("add", total, x.load(F32, x.m)), x.m, x.n)]
        elif kind == "rounded before the bias":
            stores = [x.store(x.body.apply("add", x.body.cast(total, BF16), x.load(BF16, x.n)), x.m, x.n)]
        elif kind == "two results":
            stores = [x.store(total, x.m, x.n), x.store(total, x.n, x.m)]
        else:
            stores = [x.store(total, x.m, x.n, *batch)]
        made.append(x.finish(a, b, F32, *stores))
    return made


@pytest.mark.parametrize("kernel", undescribed())
def test_what_a_library_does_not_do_is_not_described(kernel: ContractKernel) -> None:
    assert library_product(kernel) is None


def test_a_description_is_plain_data() -> None:
    found = library_product(plain(F32, F32, False, True))
    assert found is not None
    data = found.data(str)
    assert data["rows"] == "d1" and data["columns"] == "d0" and data["depth"] == "d2"
    assert data["first"] == {
        "operand": 1,
        "type": "f32",
        "transposed": True,
        "leading": "d2",
        "stride": "0",
        "offset": "0",
    }
    assert data["result"] == {
        "operand": 2,
        "type": "f32",
        "transposed": False,
        "leading": "d1",
        "stride": "0",
        "offset": "0",
    }
