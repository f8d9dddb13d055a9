"""The matrix product against NumPy in double precision, on every variant this processor runs."""

import functools
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

from dfc_driver_cpu.context import LARGE_PAGE
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.machine import MACHINES
from dfc_target_cpu.product.gemm.library import gemm_library
from tests.support.cpu_code import aligned, runnable_machines
from tests.support.cpu_gemm import GemmCode
from tests.support.quick_code import quick_code
from tests.support.sweeping import WHOLE, few

VARIANTS = [(machine.name, element) for machine in runnable_machines() for element in ("float", "double")]
VARIANTS = few(VARIANTS, 4)  # both element types of one instruction set, one of each other
SIZES = [(1, 1, 1), (1, 100, 64), (2, 33, 5), (3, 5, 7), (8, 48, 16), (9, 49, 17), (50, 100, 300), (100, 10, 100)]
SIZES += [(1, 2100, 21), (7, 16, 3), (33, 37, 1500), (64, 1000, 40), (130, 3, 9)]
LAYOUTS = ["rows", "columns", "strided"]


@functools.cache
def code(machine: str, element: str) -> GemmCode:
    return GemmCode(MACHINES[machine], element)


def matrix(rows: int, columns: int, layout: str, dtype: type, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if layout == "rows":
        return generator.standard_normal((rows, columns)).astype(dtype)
    if layout == "columns":
        return generator.standard_normal((columns, rows)).astype(dtype).T
    return generator.standard_normal((2 * rows, 3 * columns)).astype(dtype)[::2, ::3]


def result(rows: int, columns: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """C as a window of a larger buffer, full of a mark that must survive outside of it."""
    buffer = aligned((rows + 1, columns + 5), np.dtype(dtype).str)
    buffer[:] = 777.0
    return buffer, buffer[:rows, :columns]


def bound(a: np.ndarray, b: np.ndarray, dtype: type) -> np.ndarray:
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return (a.shape[1] + 1) * np.finfo(dtype).eps * magnitude


@pytest.mark.parametrize("machine, element", VARIANTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_product_is_within_the_bound_for_all_layouts(machine: str, element: str, size: tuple[int, int, int]):
    gemm = code(machine, element)
    m, n, k = size
    for layout_a, layout_b in few(product(LAYOUTS, LAYOUTS), 4):
        a, b = matrix(m, k, layout_a, gemm.dtype, 1), matrix(k, n, layout_b, gemm.dtype, 2)
        buffer, c = result(m, n, gemm.dtype)
        gemm.part(a, b, c)
        error = np.abs(c - a.astype(np.float64) @ b.astype(np.float64))
        assert (error <= bound(a, b, gemm.dtype)).all(), (layout_a, layout_b)
        assert (buffer[m:] == 777).all() and (buffer[:, n:] == 777).all(), "wrote outside of C"


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_bits_do_not_depend_on_the_number_of_parts(machine: str, element: str):
    gemm = code(machine, element)
    for m, n, k in ((100, 100, 784), (6, 200, 50), (61, 700, 1100), (300, 20, 2100), (1, 810, 30)):
        for layout in ("rows", "columns"):
            a, b = matrix(m, k, "rows", gemm.dtype, 3), matrix(k, n, layout, gemm.dtype, 4)
            results = []
            for parts in (1, 2, 3, 8):
                c = np.full((m, n), np.nan, gemm.dtype)
                for part in range(parts):
                    gemm.part(a, b, c, False, part, parts)
                results.append(c)
            for other in results[1:]:
                np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("machine, element", VARIANTS)
@pytest.mark.parametrize("parts", [1, 2, 8])
def test_packed_factors_give_the_bits_of_those_read_in_place(machine: str, element: str, parts: int):
    """Several blocks of rows, of columns and of k, tiles of all heights, and last ones that are not full."""
    gemm = code(machine, element)
    for m, n, k in ((211, 65, 1101), (97, 1100, 403), (90, 401, 1000), (560, 35, 260), (13, 50, 9), (331, 53, 17)):
        a, b = matrix(m, k, "rows", gemm.dtype, 3), matrix(k, n, "rows", gemm.dtype, 4)
        results = []
        for turned in (a, np.asfortranarray(a)):
            for other in (b, np.asfortranarray(b)):
                c = np.full((m, n), np.nan, gemm.dtype)
                for part in range(parts):
                    gemm.part(turned, other, c, False, part, parts)
                results.append(c)
        in_place = np.full((m, n), np.nan, gemm.dtype)
        for column in range(0, n, 16):  # narrow products are not packed
            gemm.part(a, b[:, column : column + 16], in_place[:, column : column + 16])
        for one in results:
            np.testing.assert_array_equal(one, in_place)


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_a_row_has_the_same_bits_in_any_batch(machine: str, element: str):
    gemm = code(machine, element)
    for n, k in ((70, 300), (2060, 21), (40, 5)):
        a, b = matrix(40, k, "rows", gemm.dtype, 5), matrix(k, n, "rows", gemm.dtype, 6)
        whole = np.zeros((40, n), gemm.dtype)
        gemm.part(a, b, whole)
        for rows in (1, 3, 7, 24):
            some = np.zeros((rows, n), gemm.dtype)
            gemm.part(a[:rows], b, some)
            np.testing.assert_array_equal(some, whole[:rows])


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_a_single_row_of_any_width_has_the_bits_of_a_tile(machine: str, element: str):
    """Sums in registers, then rows that are asked for ahead where they are many, then rows side by side."""
    gemm = code(machine, element)
    for n, k in (*((n, 9) for n in (8, 16, 17, 31, 33, 96, 97, 100, 240, 255, 256, 257)), (256, 301), (300, 450)):
        a, b = matrix(2, k, "rows", gemm.dtype, 5), matrix(k, n, "rows", gemm.dtype, 6)
        whole = np.zeros((2, n), gemm.dtype)
        buffer, single = result(1, n, gemm.dtype)
        gemm.part(a, b, whole)
        gemm.part(a[1:], b, single)
        np.testing.assert_array_equal(single[0], whole[1])
        assert (buffer[1:] == 777).all() and (buffer[:, n:] == 777).all(), "wrote outside of C"


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_a_single_row_adds_to_what_is_there_in_the_order_of_a_tile(machine: str, element: str):
    gemm = code(machine, element)
    for k in (1, 7, 8, 21):
        a, b = matrix(2, k, "columns", gemm.dtype, 5), matrix(k, 45, "rows", gemm.dtype, 6)
        whole, single = np.ones((2, 45), gemm.dtype), np.ones((2, 45), gemm.dtype)
        gemm.part(a, b, whole, accumulate=True)
        gemm.part(a[1:], b, single[1:], accumulate=True)
        np.testing.assert_array_equal(single[1], whole[1])


def test_forms_of_rows_that_no_product_has_are_left_out_and_the_others_keep_their_bits():
    machine, element = VARIANTS[0]
    whole, narrow = code(machine, element), GemmCode(MACHINES[machine], element, widest=40)
    texts = [gemm_library(MACHINES[machine], (element,), widest) for widest in (40, 41, 10_000)]
    assert texts[0] == texts[1] and "_stretch(" not in texts[0], "one class of widths"
    assert texts[2] == gemm_library(MACHINES[machine], (element,)) and "_stretch(" in texts[2]
    for n in (1, 15, 16, 17, 33, 40):
        a, b = matrix(5, 70, "rows", whole.dtype, 5), matrix(70, n, "rows", whole.dtype, 6)
        for rows in (1, 5):
            results = [np.zeros((rows, n), whole.dtype) for _ in range(2)]
            for one, c in zip((whole, narrow), results, strict=True):
                one.part(a[:rows], b, c)
            np.testing.assert_array_equal(*results)


def test_without_forms_of_few_rows_what_is_left_of_a_product_has_the_same_bits():
    """Last rows, alone or few, of a product that has many."""
    machine, element = VARIANTS[0]
    whole, tall = code(machine, element), GemmCode(MACHINES[machine], element, has_few_rows=False)
    for n, layout in ((2, "columns"), (70, "rows"), (70, "columns"), (300, "columns")):
        a, b = matrix(35, 300, layout, whole.dtype, 5), matrix(300, n, layout, whole.dtype, 6)
        for rows in (1, 2, 3, 35):
            results = [np.zeros((rows, n), whole.dtype) for _ in range(2)]
            for one, c in zip((whole, tall), results, strict=True):
                one.part(a[:rows], b, c, whole_m=35)
            np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_tiles_agree_with_the_whole_in_their_bits(machine: str, element: str):
    gemm = code(machine, element)
    for rows in (3, 8):
        a, b = matrix(rows, 300, "rows", gemm.dtype, 5), matrix(300, 70, "columns", gemm.dtype, 6)
        whole, tiled = np.zeros((rows, 70), gemm.dtype), np.zeros((rows, 70), gemm.dtype)
        gemm.part(a, b, whole)
        for row in range(0, rows, 2):
            gemm.part(a[row : row + 2], b[:, :32], tiled[row : row + 2, :32], whole_m=rows)
            gemm.part(a[row : row + 2], b[:, 32:], tiled[row : row + 2, 32:], whole_m=rows)
        np.testing.assert_array_equal(whole, tiled)


@pytest.mark.parametrize("machine, element", VARIANTS)
@pytest.mark.parametrize("parts", [1, 2, 12])
def test_epilogue_covers_each_element_once(machine: str, element: str, parts: int):
    gemm = code(machine, element)
    sizes = [(100, 100, 20, "rc"), (3, 70, 2100, "rc"), (200, 1100, 1030, "rc"), (5, 7, 0, "rc")]
    for m, n, k, layouts in (*sizes, (90, 401, 1000, "rr"), (90, 401, 1000, "rc"), (560, 35, 260, "cr")):
        layout_a, layout_b = ({"r": "rows", "c": "columns"}[letter] for letter in layouts)
        a, b = matrix(m, k, layout_a, gemm.dtype, 7), matrix(k, n, layout_b, gemm.dtype, 8)
        c, seen = np.zeros((m, n), gemm.dtype), np.zeros((m, n))
        for part in range(parts):
            gemm.part(a, b, c, False, part, parts, seen)
        assert (seen == 1).all()


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_packed_blocks_of_both_factors_lie_in_one_large_page(machine: str, element: str):
    gemm = code(machine, element)
    for m, n, k in ((300, 400, 400), (100, 400, 400)):
        a, b = matrix(m, k, "rows", gemm.dtype, 7), matrix(k, n, "columns", gemm.dtype, 8)
        gemm.workspace[:] = 0x55
        gemm.part(a, b, np.zeros((m, n), gemm.dtype))
        used = np.flatnonzero(gemm.workspace != 0x55)
        assert used.size > 0 and used[-1] < LARGE_PAGE


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_accumulation_starts_from_c(machine: str, element: str):
    gemm = code(machine, element)
    a, b = matrix(20, 30, "rows", gemm.dtype, 9), matrix(30, 40, "rows", gemm.dtype, 10)
    c = np.zeros((20, 40), gemm.dtype)
    for _ in range(3):
        gemm.part(a, b, c, accumulate=True)
    error = np.abs(c - 3 * (a.astype(np.float64) @ b.astype(np.float64)))
    assert (error <= 9 * bound(a, b, gemm.dtype)).all()


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_empty_sums_are_zero_and_empty_results_are_left_alone(machine: str, element: str):
    gemm = code(machine, element)
    for m, n, k in ((3, 5, 0), (0, 5, 4), (5, 0, 4), (0, 0, 0)):
        buffer, c = result(m, n, gemm.dtype)
        gemm.part(np.ones((m, k), gemm.dtype), np.ones((k, n), gemm.dtype), c)
        assert (c == 0).all()
        assert (buffer[m:] == 777).all() and (buffer[:, n:] == 777).all()
    c = np.full((2, 2), 7, gemm.dtype)
    gemm.part(np.ones((2, 0), gemm.dtype), np.ones((0, 2), gemm.dtype), c, accumulate=True)
    assert (c == 7).all()


@pytest.mark.parametrize("machine, element", VARIANTS)
def test_specials_stay_in_their_row_and_column(machine: str, element: str):
    gemm = code(machine, element)
    a, b = np.ones((10, 8), gemm.dtype), np.ones((8, 37), gemm.dtype)
    a[4, 3], b[2, 36] = np.nan, np.inf
    c = np.zeros((10, 37), gemm.dtype)
    gemm.part(a, b, c)
    expected = np.full((10, 37), 8.0)
    expected[:, 36], expected[4] = np.inf, np.nan
    np.testing.assert_array_equal(c, expected)


def test_every_variant_is_generated_on_any_host():
    library = gemm_library(MACHINES["aarch64"], tuple(few(("float", "double"), 1)))
    with nullcontext() if WHOLE else quick_code():
        image = build_image([], MACHINES["aarch64"], libraries=[library])
    assert len(image.code) > 1000
