"""When a library is worth what it costs to take sums apart, and the benchmark that measures it."""

from __future__ import annotations

import os
from dataclasses import replace
from unittest import mock

import pytest

from bench.gpu import products as gpu_products
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.libraries import product_costs
from dfc_driver_cuda.libraries.product_costs import Work, pays, saved
from dfc_target_cuda.target import SIMULATOR
from tests.support.simulated_cublaslt import SimulatedCublasLt, with_library
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_runtime import simulated_devices

LARGE = Work(4096, 4096, 4096, 1, "f32", "f32")


def test_large_products_are_worth_a_kernel_after_them_and_small_ones_are_not() -> None:
    assert pays(LARGE, 1, apart=True)
    assert not pays(replace(LARGE, rows=64, columns=64, depth=64), 1, apart=True)


def test_short_sums_are_never_worth_it_however_many_there_are() -> None:
    assert not pays(replace(LARGE, rows=1 << 16, columns=1 << 16, depth=16), 1, apart=True)


def test_what_moves_more_than_it_multiplies_is_not_worth_it() -> None:
    assert not pays(replace(LARGE, columns=1, depth=1 << 16), 1, apart=True), "a matrix and a vector"


def test_each_further_launch_costs() -> None:
    assert saved(LARGE, 3, apart=True) == pytest.approx(saved(LARGE, 1, apart=True) - 2 * product_costs.LAUNCH)


def test_sums_are_written_and_read_once_more() -> None:
    more = 2 * 4 * 4096 * 4096 / product_costs.COPY
    assert saved(LARGE, 1, apart=False) - saved(LARGE, 1, apart=True) == pytest.approx(more)


def test_batches_count_as_often_as_they_have_matrices() -> None:
    small = replace(LARGE, rows=128, columns=128, depth=128)
    assert not pays(small, 1, apart=True) and pays(replace(small, batch=256), 1, apart=True)


def test_tensor_cores_have_rates_of_their_own() -> None:
    assert saved(replace(LARGE, is_rounding=True), 0, apart=False) < saved(LARGE, 0, apart=False)
    assert replace(LARGE, factor="bf16").sums_bytes == 4 * 4096 * 4096


def test_the_benchmark_compares_both_ways() -> None:
    library = SimulatedCublasLt()

    def open_device(number: int) -> SimulatedDevice:
        return SimulatedDevice() if os.environ["DFC_CUBLASLT"] == gpu_products.KERNELS else with_library(library)

    with simulated_devices(), mock.patch.object(libcuda, "open_device", open_device):
        line = gpu_products.measure("f32", (4, 3, 8), SIMULATOR, 0.0)
    assert library.products and line.startswith("f32       4 x     3 x     8  bare: kernel")
    assert "   chosen one: " in line
