"""Tests on a real GPU: `make test-gpu`. Without one they are skipped, with the reason printed."""

from __future__ import annotations

from functools import cache

import pytest

from dfc_driver_cuda import libcuda
from dfc_runtime.devices import newest
from dfc_runtime.errors import DfcError
from dfc_target_cuda.code.compile import check_installed


@cache
def missing() -> str:
    """Why nothing here can run; empty where it can."""
    try:
        libcuda.device_bits(0)
        check_installed()
    except DfcError as problem:
        return str(problem)
    return ""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Asked of what lies in this folder alone."""
    item.add_marker(pytest.mark.gpu)
    if missing():
        item.add_marker(pytest.mark.skip(reason=missing()))


@pytest.fixture(scope="session")
def architecture() -> str:
    """That of the first device, such as sm_90."""
    return newest(libcuda.device_bits(0))
