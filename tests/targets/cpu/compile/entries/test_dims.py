"""Formulas as machine code: what they are worth, and how much code a plan of offsets takes."""

from __future__ import annotations

import ctypes
import random

import pytest

from dfc.ir.dims import ZERO, Dim, Symbol, ceil_divide, dim, floor_divide, maximum, minimum, modulo
from dfc_target_cpu.entries.dims import DimCode, finish_prologue
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64
from tests.support.cpu_code import host, load

B, C = Symbol("B"), Symbol("C")


def function_of(formulas: list[Dim], module: ModuleText) -> FunctionText:
    """`void offsets(int64 B, int64 C, int64* results)`."""
    parameters = [Parameter("i64", "b"), Parameter("i64", "c"), Parameter("ptr", "results")]
    f = module.function("offsets", "void", parameters, linkage="external")
    sizes = dict(zip((B, C), f.arguments, strict=False))
    code, start = DimCode(f, lambda symbol: sizes[symbol]), f.label("start")
    f.begin(start)
    for position, formula in enumerate(formulas):
        f.store(code.value(formula), f.gep("i64", f.arguments[2], i64(position)))
    f.ret()
    finish_prologue(f, start)
    return f


def values(formulas: list[Dim], b: int, c: int) -> list[int]:
    module = ModuleText(host().triple)
    module.add(function_of(formulas, module))
    results = (ctypes.c_int64 * len(formulas))()
    code = load(module)
    code.function("offsets", None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(b, c, results)
    return list(results)


def plan(count: int, seed: int) -> list[Dim]:
    """Offsets of buffers behind each other, rounded up to 64 bytes, in no order."""
    generator = random.Random(seed)
    offsets, total = list[Dim](), ZERO
    for _ in range(count):
        offsets.append(total)
        size = maximum(dim(B) * generator.randrange(1, 9000), dim(C) * generator.randrange(1, 9000))
        total = total + ceil_divide(size, dim(64)) * 64
    generator.shuffle(offsets)
    return offsets


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 7), (300, 2)])
def test_offsets_are_worth_what_their_formulas_are(seed: int, b: int, c: int) -> None:
    formulas = plan(30, seed)
    assert values(formulas, b, c) == [each.evaluate({B: b, C: c}) for each in formulas]


def test_a_plan_takes_code_in_proportion_to_its_buffers() -> None:
    lengths: list[int] = []
    for count in (40, 160):
        module = ModuleText(host().triple)
        lengths.append(function_of(plan(count, 3), module).body().count("\n"))
    assert lengths[1] < 6 * lengths[0]


@pytest.mark.parametrize("divisor", [1, 2, 64, 3, -4])
@pytest.mark.parametrize("b", [0, 1, 63, 64, 65, 1000])
def test_quotients_round_down(divisor: int, b: int) -> None:
    shifted = dim(B) - 70
    formulas = [floor_divide(shifted, dim(divisor)), ceil_divide(shifted, dim(divisor)), modulo(shifted, dim(divisor))]
    assert values(formulas, b, 0) == [(b - 70) // divisor, -(-(b - 70) // divisor), (b - 70) % divisor]


def test_division_by_zero_is_zero_and_extremes_are_taken() -> None:
    formulas = [floor_divide(dim(B), dim(C)), minimum(dim(B), dim(C)), maximum(dim(B), dim(C))]
    assert values(formulas, 9, 0) == [0, 0, 9]
    assert values(formulas, 9, 4) == [2, 4, 9]
