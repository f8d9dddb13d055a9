"""Numba's passes for kernel text: what is left out changes no instruction."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.code.numba_passes import NOT_NEEDED
from tests.support.warm_compiler import needs_numba

pytestmark = needs_numba

TEXT = """def kernel(a, d0, error):
    memory = shared_f32(32)
    point = thread()
    total = f32(0.0)
    count = 0
    while both(point < d0, count >= 0):
        if a[point] > 0:
            count = count + 1
            total = f32_add(total, memory[point & 31])
        else:
            total = f32(0.5)
        point = point + 32
    if count > 3:
        return
    memory[count] = total
    a[thread()] = i64_floordiv(count, 7)
"""


def instructions(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """PTX, with registers and labels by their order."""
    monkeypatch.setattr("numba.cuda.compiler.CUDACompiler", compiler)
    device, link = (import_module(f"dfc_target_cuda.code.{name}") for name in ("device_functions", "link"))
    ptx: str = link.link(device.kernel_code(TextKey(TEXT, ("i64",), 1, False, 32), "compute_80"), "compute_80")
    order: dict[str, str] = {}
    return re.sub(r"%[a-z]+\d+|\$L\w+", lambda name: order.setdefault(name[0], f"%{len(order)}"), ptx)


def test_all_passes_give_the_same_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("dfc_target_cuda.code.device_functions").names()
    shorter = import_module("numba.cuda.compiler").CUDACompiler
    whole = shorter.__base__
    assert whole.define_pipelines is not shorter.define_pipelines
    assert instructions(shorter, monkeypatch) == instructions(whole, monkeypatch)


def test_numba_has_the_passes_that_are_left_out() -> None:
    """Else another version calls them otherwise, and runs them."""
    passes = import_module("numba.cuda.core.compiler_machinery")._pass_registry._registry
    assert {one.name() for one in passes} >= NOT_NEEDED
