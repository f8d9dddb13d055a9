"""The text builder: exact literals, sharing, control flow."""

import ctypes
import math
import struct

import numpy as np
import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.link.compile import compile_object
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, constant
from dfc_target_cpu.llvm.values import float_literal, i64, vector_type, zero
from tests.support.cpu_code import aligned, host, load


def module() -> ModuleText:
    return ModuleText(host().triple)


def leaf(m: ModuleText, hint: str, number: int) -> FunctionText:
    f = m.function(hint, "i64", [Parameter("i64", "x")])
    f.ret(f.add(f.arguments[0], i64(number)))
    return f


def test_equal_internal_functions_are_kept_once():
    m = module()
    first, second, third = (m.add(leaf(m, hint, n)) for hint, n in (("a", 1), ("b", 1), ("a", 2)))
    assert first == second == "a"
    assert third != first
    assert m.text().count("define") == 2


def test_equal_tables_share_one_address():
    m = module()
    assert m.table("float", [1.0, 2.0]) == m.table("float", [1.0, 2.0])
    assert m.table("float", [1.0, 2.0]) != m.table("double", [1.0, 2.0])


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, 1e-45, 3.4e38, 1e300])
def test_float_literals_are_the_bits_of_the_rounded_value(value: float):
    m = module()
    f = m.function("get", "float", [], linkage="external")
    f.ret(constant("float", value))
    m.add(f)
    got = load(m).function("get", ctypes.c_float)()
    with np.errstate(over="ignore"):
        assert struct.pack("<f", got) == np.float32(value).tobytes()


def test_half_and_bfloat_literals_round_to_nearest_even():
    assert float_literal("half", 1.0) == "0xH3C00"
    assert float_literal("bfloat", 1.0) == "0xR3F80"
    assert float_literal("bfloat", 1.00390625) == "0xR3F80"
    assert float_literal("bfloat", 1.01171875) == "0xR3F82"


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100])
def test_masked_tail_touches_only_its_lanes(count: int):
    m = module()
    lanes = 4
    vector = vector_type(lanes, "float")
    f = m.function("double_it", "void", [Parameter("ptr", "x"), Parameter("i64", "n")], linkage="external")
    x, n = f.arguments
    with f.counted_loop(i64(0), n, lanes) as loop:
        mask = f.tail_mask(f.sub(n, loop.index), lanes)
        p = f.gep("float", x, loop.index)
        loaded = f.masked_load(vector, p, mask, zero(vector))
        f.masked_store(f.fadd(loaded, loaded), p, mask)
    f.ret()
    m.add(f)
    data = aligned((128,), "float32")
    data[:] = np.arange(128)
    expected = data.copy()
    expected[:count] *= 2
    load(m).function("double_it", None, ctypes.c_void_p, ctypes.c_int64)(data.ctypes.data, count)
    np.testing.assert_array_equal(data, expected)


def test_loop_carries_a_value_and_nests():
    m = module()
    f = m.function("triangle", "i64", [Parameter("i64", "n")], linkage="external")
    with f.counted_loop(i64(0), f.arguments[0]) as outer:
        total = outer.carry(i64(0))
        with f.counted_loop(i64(0), outer.index) as inner:
            row = inner.carry(total)
            inner.next(row, f.add(row, inner.index))
        outer.next(total, inner.result(row))
    f.ret(outer.result(total))
    m.add(f)
    got = load(m).function("triangle", ctypes.c_int64, ctypes.c_int64)(10)
    assert got == sum(j for i in range(10) for j in range(i))


def test_choose_runs_one_branch():
    m = module()
    f = m.function("divide", "i64", [Parameter("i64", "a"), Parameter("i64", "b")], linkage="external")
    a, b = f.arguments
    f.ret(f.choose(f.icmp("eq", b, i64(0)), lambda: i64(-1), lambda: f.sdiv(a, b)))
    m.add(f)
    divide = load(m).function("divide", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert (divide(7, 2), divide(7, 0)) == (3, -1)


@pytest.mark.parametrize("body", ["ret i64 %nothing", "ret float %x", "this is no instruction"])
def test_unsound_text_is_an_internal_error(body: str):
    text = f"define i64 @f(i64 %x) {{\nentry:\n  {body}\n}}\n"
    with pytest.raises(CodeGenerationError, match="LLVM refuses"):
        compile_object(text, host())


def test_objects_are_the_same_bytes_each_time():
    m = module()
    m.add(leaf(m, "a", 1))
    f = m.function("outside", "i64", [], linkage="external")
    f.ret(f.call("a", "i64", [i64(4)]))
    m.add(f)
    assert compile_object(m.text(), host()) == compile_object(m.text(), host())
