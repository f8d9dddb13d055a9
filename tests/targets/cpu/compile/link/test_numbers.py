"""Texts that differ in numbers alone: what they become one text for, what stays, and that each keeps its meaning."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dfc_runtime.code_memory import MappedCode
from dfc_target_cpu.link.build import compile_objects, link_objects
from dfc_target_cpu.link.numbers import Linked, share_texts
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.llvm.values import constant, i64, vector_type
from tests.support.cpu_code import host


def counting(
    *, steps: int = 3, stride: int = 5, least: int = -7, divisor: int = 3, table: Sequence[int] = (1, 2)
) -> str:
    """Adds up over steps, in two functions, with words of a table."""
    m = ModuleText(host().triple)
    inner = m.function("inner", "i64", [Parameter("i64", "x")], attributes="nounwind noinline")
    scaled = inner.mul(inner.arguments[0], i64(stride))
    inner.ret(inner.maximum(inner.udiv(scaled, i64(divisor)), i64(least)))
    name = m.add(inner)
    f = m.function("run_0", "i64", [Parameter("i64", "x")], linkage="external")
    words = m.table("i64", table)
    total = f.alloca("i64", count=1, align=8)
    f.store(i64(stride), total)
    with f.counted_loop(i64(0), i64(steps)) as loop:
        term = f.call(name, "i64", [f.add(loop.index, f.arguments[0])])
        word = f.load("i64", f.gep("i64", words, f.bit_and(loop.index, i64(1))))
        f.store(f.add(f.load("i64", total), f.mul(term, word)), total)
    last = f.call(name, "i64", [i64(steps)])
    f.ret(f.sub(f.select(f.icmp("sgt", f.arguments[0], i64(steps)), last, i64(least)), f.load("i64", total)))
    m.add(f)
    return m.text()


def counted(
    x: int, *, steps: int = 3, stride: int = 5, least: int = -7, divisor: int = 3, table: Sequence[int] = (1, 2)
) -> int:
    def inner(value: int) -> int:
        return max(value * stride // divisor, least)

    total = stride + sum(inner(step + x) * table[step % 2] for step in range(steps))
    return (inner(steps) if x > steps else least) - total


def results(linked: Sequence[Linked], x: int) -> list[int]:
    """What these functions give."""
    return [function(x) for function in functions(linked, ctypes.c_int64, ctypes.c_int64)]


def functions(linked: Sequence[Linked], result: type | None, argument: type) -> list[Callable[[int], Any]]:
    """The function of each text, all of them in one image."""
    names = [{"run_0": f"run_{number}"} for number in range(len(linked))]
    objects = compile_objects([one.text for one in linked], host())
    image = link_objects(objects, host(), None, names, [one.tables for one in linked])
    code = MappedCode(image.code)
    return [code.function(image.offset(f"run_{n}"), result, [argument]) for n in range(len(linked))]


def test_texts_of_other_sizes_are_compiled_once_and_mean_what_they_did():
    sizes = [
        {},
        {"steps": 40, "stride": 1 << 33, "least": -1, "table": (-9, 1 << 20)},
        {"steps": 1, "stride": 5, "least": -(1 << 50), "table": (1, 2)},
    ]
    linked = share_texts([counting(**each) for each in sizes])
    assert len({one.text for one in linked}) == 1
    for x in (0, 2, 100):
        assert results(linked, x) == [counted(x, **each) for each in sizes]


def test_a_divisor_stays_in_its_text():
    sizes = [{"steps": 3}, {"steps": 4}, {"divisor": 7}, {"divisor": 7, "steps": 9}, {"divisor": 11}]
    linked = share_texts([counting(**each) for each in sizes])
    assert [one.text == linked[0].text for one in linked] == [True, True, False, False, False]
    assert linked[2].text == linked[3].text
    assert linked[4] == Linked(counting(divisor=11)), "nothing is like it"
    assert results(linked, 5) == [counted(5, **each) for each in sizes]


def test_numbers_that_go_together_are_one_word():
    """`steps` stands in three places, `stride` in two, and both differ from text to text in the same way."""
    linked = share_texts([counting(steps=3, stride=3), counting(steps=8, stride=8)])
    assert [one.tables for one in linked] == [{"numbers": _word(3)}, {"numbers": _word(8)}]
    others = share_texts([counting(steps=3, stride=3), counting(steps=8, stride=9)])
    assert [one.tables["numbers"] for one in others] == [_word(3) + _word(3), _word(9) + _word(8)]


def scaling(element: str, lanes: int, factor: float) -> str:
    """Multiplies numbers in memory by a factor."""
    m = ModuleText(host().triple)
    f = m.function("run_0", "void", [Parameter("ptr", "x")], linkage="external")
    vector = vector_type(lanes, element)
    f.store(f.fmul(f.load(vector, f.arguments[0], align=4), constant(vector, factor)), f.arguments[0], align=4)
    f.ret()
    m.add(f)
    return m.text()


@pytest.mark.parametrize(("element", "lanes"), [("float", 8), ("float", 1), ("double", 4), ("double", 1)])
def test_factors_are_words_but_for_one(element: str, lanes: int) -> None:
    factors = [0.1, -3.0, 1e-30, 1.0]
    linked = share_texts([scaling(element, lanes, factor) for factor in factors])
    assert [one.text == linked[0].text for one in linked] == [True, True, True, False]
    numbers = np.random.default_rng(1).standard_normal(lanes).astype({"float": "f4", "double": "f8"}[element])
    for factor, function in zip(factors, functions(linked, None, ctypes.c_void_p), strict=True):
        scaled = numbers.copy()
        function(scaled.ctypes.data)
        np.testing.assert_array_equal(scaled, numbers * numbers.dtype.type(factor))


def _word(number: int) -> bytes:
    return number.to_bytes(8, "little")
