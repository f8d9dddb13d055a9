"""What a machine does in its own way has the bits of the kernel function, but for those of a NaN."""

import ctypes

import numpy as np
import pytest

from dfc.ir.dtypes import F16, F32, F64, DType
from dfc.kernels.functions import Function
from dfc.kernels.functions.interpret_function import run
from dfc.lower.legalise.double_words import (
    fma_by_doubles_function,
    product_error_function,
    split_product_error_function,
)
from dfc.lower.legalise.formats import FORMATS, scale_function
from dfc.lower.legalise.halves import load_function, store_function
from dfc.lower.legalise.meaning import meaning
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.elementwise.machine_forms import machine_form
from dfc_target_cpu.elementwise.types import register_type
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64, vector_type
from dfc_target_cpu.machine import Machine
from tests.support.cpu_code import load, runnable_machines

FORMED = [
    (machine, function)
    for machine in runnable_machines()
    for function in (load_function(F16), store_function(F16), scale_function(F32), scale_function(F64))
    if machine_form(machine, function.name) is not None
]


def compiled(machine: Machine, function: Function, arrays: list[np.ndarray]) -> np.ndarray:
    """The function of arrays whose length is a multiple of 16, by 16 (of f64: 8) lanes."""
    module, lanes = ModuleText(machine.triple), 8 if arrays[0].itemsize == 8 else 16
    names = ["out", *(one.name for one in function.parameters)]
    formals = [*(Parameter("ptr", name) for name in names), Parameter("i64", "n")]
    f = module.function("run", "void", formals, linkage="external")
    kinds = [register_type(one.dtype) for one in function.parameters]
    with f.counted_loop(i64(0), f.argument("n"), lanes) as loop:
        values = [
            f.load(vector_type(lanes, kind), f.gep(kind, place, loop.index))
            for kind, place in zip(kinds, f.arguments[1:], strict=False)
        ]
        made = KernelFunctions(module, machine).apply(f, function, *values)[0]
        f.store(made, f.gep(register_type(function.result_types[0]), f.arguments[0], loop.index))
    f.ret()
    module.add(f)
    out = np.empty(len(arrays[0]), function.result_types[0].numpy)
    call = load(module, machine).function("run", None, *[ctypes.c_void_p] * len(names), ctypes.c_int64)
    call(out.ctypes.data, *(array.ctypes.data for array in arrays), len(out))
    return out


def arguments(function: Function) -> list[np.ndarray]:
    """Bit patterns; of a scale also exponents beyond what a result can have."""
    if function.name == "f16_load":
        return [np.arange(1 << 16, dtype=np.uint16)]
    if function.name == "f16_store":
        edges = np.arange(1 << 16, dtype=np.uint32) << 16
        near = [edges + offset for offset in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0xFFFF)]
        return [np.concatenate([*near, np.arange(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32)]).view("f4")]
    dtype = function.parameters[0].dtype
    random, most = np.random.default_rng(2), 150 if dtype == F32 else 1076
    exponent = random.integers(-most, 129 if dtype == F32 else 1025, 1 << 16)
    x = random.uniform(0.7, 1.5, 1 << 16).astype(dtype.numpy)
    form = FORMATS[dtype]
    word = exponent + (form.round_magic + 2 * form.bias)  # as `rounded_to_scale` makes it
    return [x, exponent.astype(dtype.numpy), word.astype(dtype.numpy).view(f"i{dtype.size}")]


@pytest.mark.parametrize(("machine", "function"), FORMED, ids=lambda one: one.name)
def test_a_form_has_the_bits_of_its_function(machine: Machine, function: Function) -> None:
    given = arguments(function)
    found, (expected,) = compiled(machine, function, given), run(function, *given)
    bits = f"u{found.itemsize}"
    nan = np.isnan(found.view("f2") if function.name == "f16_store" else found)
    also = np.isnan(expected.view("f2") if function.name == "f16_store" else expected)
    assert ((found.view(bits) == np.ascontiguousarray(expected).view(bits)) | (nan & also)).all()


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_scale_rounds_once(dtype: DType) -> None:
    x, whole, word = arguments(scale_function(dtype))
    (found,) = run(scale_function(dtype), x, whole, word)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(x, whole.astype(np.int32))
    assert found.tolist() == expected.tolist()


def test_without_the_instruction_fused_sums_are_exact_all_the_same() -> None:
    random = np.random.default_rng(8)
    a, b = (random.standard_normal(3000).astype(np.float32) for _ in range(2))
    c = np.where(np.arange(3000) % 2, random.standard_normal(3000) * 1e-6, -a * b).astype(np.float32)
    (found,), exact = run(fma_by_doubles_function(), a, b, c), run(meaning("fma", [F32] * 3, F32), a, b, c)[0]
    assert found.tolist() == exact.tolist()


def test_without_the_instruction_the_error_of_a_product_is_nearly_exact() -> None:
    a, b = np.random.default_rng(9).standard_normal((2, 3000)) * 1e3
    error = run(product_error_function(F64), a, b, a * b)[0]
    split = run(split_product_error_function(F64), a, b, a * b)[0]
    assert (np.abs(split - error) <= np.abs(a * b) * 2.0**-104).all() and (split == error).mean() > 0.5
