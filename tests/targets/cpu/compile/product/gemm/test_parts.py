"""How products are shared out: rectangles that cover the result once, in the form of a grid where that costs less."""

import ctypes
import functools

import numpy as np
import pytest

from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.product.gemm.parts import ProductPart
from dfc_target_cpu.product.gemm.shape import gemm_shape
from tests.support.cpu_code import Code, host, load

SHAPE = gemm_shape(host(), "float")
PARAMETERS = (Parameter("ptr", "bounds"), *(Parameter("i64", name) for name in ("m", "n", "k", "part", "parts")))


@functools.cache
def code() -> Code:
    module = ModuleText(host().triple)
    f = module.function("rectangle", "void", PARAMETERS, linkage="external")
    for number, bound in enumerate(ProductPart(f, SHAPE).rectangle()):
        f.store(bound, f.gep("i64", f.argument("bounds"), i64(number)))
    f.ret()
    module.add(f)
    return load(module)


def rectangles(m: int, n: int, k: int, parts: int) -> list[tuple[int, int, int, int]]:
    call = code().function("rectangle", None, ctypes.c_void_p, *[ctypes.c_int64] * 5)
    bounds_of_parts: list[tuple[int, int, int, int]] = []
    for part in range(parts):
        bounds = np.full(4, -1, np.int64)
        call(bounds.ctypes.data, m, n, k, part, parts)
        bounds_of_parts.append(tuple(bounds.tolist()))
    return bounds_of_parts


def grid(m: int, n: int, k: int, parts: int) -> tuple[int, int]:
    """How many parts lie below each other, and how many beside each other."""
    bounds_of_parts = rectangles(m, n, k, parts)
    return len({one[:2] for one in bounds_of_parts}), len({one[2:] for one in bounds_of_parts})


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 48, 97])
def test_every_element_belongs_to_one_part(parts: int):
    for m, n in ((1, 1), (1, 500), (40, 3), (130, 61), (97, 700), (400, 33)):
        seen = np.zeros((m, n), np.int64)
        for row0, row1, column0, column1 in rectangles(m, n, 100, parts):
            seen[row0:row1, column0:column1] += 1
        assert (seen == 1).all(), (m, n)


def test_many_parts_of_a_square_form_a_grid():
    assert grid(2048, 1024, 1024, 16) == (4, 4)
    assert grid(1440, 960, 960, 12) == (3, 4)
    assert grid(1024, 1024, 1024, 7) in ((1, 7), (7, 1))


def test_few_rows_stay_together_and_few_columns_too():
    assert grid(2 * SHAPE.rows - 1, 4096, 512, 8) == (1, 8)
    assert grid(4096, SHAPE.lanes, 512, 8) == (8, 1)


def test_two_parts_pack_the_smaller_factor():
    assert grid(4096, 64, 512, 2) == (2, 1)
    assert grid(1024, 1024, 1024, 2) == (1, 2)
    assert grid(64, 4096, 512, 2) == (1, 2)
