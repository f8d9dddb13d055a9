"""Native code that looks for features in examples, compared with the reader of the run side, whatever the bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from dfc_runtime.records import example
from dfc_runtime.records.example import encode_example
from dfc_runtime.records.wire import WireError
from dfc_target_cpu.entries.records.examples import Feature, parse_function
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from tests.support.cpu_code import host, load
from tests.support.example_messages import PACKED, UNPACKED
from tests.support.sweeping import few

FEATURES: tuple[Feature, ...] = (("image", "string", 1), ("label", "i64", 1), ("ids", "i64", 3), ("weights", "f32", 2))
NUMBER = 77
MARGIN = 32
Values = dict[str, list[object]]


@pytest.fixture(scope="module")
def parse() -> Callable[[bytes, int], Values | None]:
    """What native code finds in a record with certain bytes around it; None if it leaves it to others."""
    module = ModuleText(host().triple)
    numbers = (Parameter("i64", name) for name in ("begin", "end", "number"))
    results = (Parameter("ptr", f"result{index}") for index in range(len(FEATURES)))
    f = module.function("outside", "i64", (Parameter("ptr", "data"), *numbers, *results), linkage="external")
    f.ret(f.call(parse_function(module, FEATURES), "i64", f.arguments))
    module.add(f)
    pointers = (ctypes.c_void_p,) * len(FEATURES)
    formals = (ctypes.c_void_p, *(ctypes.c_int64,) * 3, *pointers)
    function = load(module).function("outside", ctypes.c_int64, *formals)

    def call(record: bytes, around: int) -> Values | None:
        edge = np.full(MARGIN, around, np.uint8)
        data = np.concatenate([edge, np.frombuffer(record, np.uint8), edge])
        outputs = [np.zeros(3, np.int64), np.zeros(1, np.int64), np.zeros(3, np.int64), np.zeros(2, np.float32)]
        addresses = [each.ctypes.data for each in outputs]
        if not function(data.ctypes.data, MARGIN, MARGIN + len(record), NUMBER, *addresses):
            return None
        begin, length, number = outputs[0].tolist()
        assert number == NUMBER
        outputs[0] = data[begin : begin + length]
        return {name: each.tolist() for (name, _, _), each in zip(FEATURES, outputs, strict=True)}

    return call


def expected(record: bytes) -> Values | None:
    """What the run side finds; None if it refuses the record, or if features are others than asked for."""
    kinds = {"string": "bytes", "i64": "int64", "f32": "float"}
    found: Values = {}
    try:
        layouts = example.layouts(record, [name for name, _, _ in FEATURES])
        for name, kind, count in FEATURES:
            layout = layouts.get(name)
            values = None if layout is None else example.values_of(record, layout)
            if layout is None or values is None or layout.kind != kinds[kind] or len(values) != count:
                return None
            found[name] = list(values[0]) if isinstance(values, list) else values.tolist()
    except WireError:
        return None
    return found


def plain(dice: np.random.Generator, more: bool = False) -> dict[str, object]:
    """Features with values of all sizes."""
    features: dict[str, object] = {
        "image": dice.bytes(int(dice.integers(0, 200))),
        "label": dice.integers(-(2**63), 2**63 - 1, 1) >> int(dice.integers(64)),
        "ids": dice.integers(0, 2**62, 3) >> dice.integers(0, 62, 3),
        "weights": dice.standard_normal(2).astype(np.float32),
    }
    return {**features, "image2": b"x", "imag": np.array([3]), "labels": np.ones(4, np.float32)} if more else features


def test_records_as_they_are_written_are_taken_apart(parse: Callable[[bytes, int], Values | None]) -> None:
    dice = np.random.default_rng(2)
    for number in range(60):
        record = encode_example(plain(dice, more=number % 2 == 0))
        assert parse(record, number) == expected(record)
        assert expected(record) is not None


@pytest.mark.parametrize("make", [PACKED, UNPACKED])
def test_those_of_the_library_too_but_for_numbers_that_are_not_packed(
    parse: Callable[[bytes, int], Values | None], make: Callable[[], object]
) -> None:
    message = make()
    for name, kind, values in (
        ("label", "int64_list", [-5]),
        ("weights", "float_list", [1.5, -2.0]),
        ("image", "bytes_list", [b"abc"]),
        ("ids", "int64_list", [1, 300, -1]),
    ):
        entry = message.features.feature.add()
        entry.key = name
        getattr(entry.value, kind).value.extend(values)
    record = message.SerializeToString()
    assert parse(record, 0) == (expected(record) if make is PACKED else None)


def test_what_is_taken_is_what_the_run_side_finds(parse: Callable[[bytes, int], Values | None]) -> None:
    """Bytes that are changed, left out, doubled, joined; what is around the record makes no difference."""
    dice, taken = np.random.default_rng(3), 0
    for _ in few(range(1500), 500):
        record = bytearray(encode_example(plain(dice, more=bool(dice.integers(2)))))
        for _ in range(int(dice.integers(1, 3))):
            at, kind = int(dice.integers(len(record))), int(dice.integers(5))
            if kind == 0:
                record[at] ^= 1 << int(dice.integers(8))
            elif kind == 1:
                record[at] = int(dice.integers(256))
            elif kind == 2:
                del record[at : at + int(dice.integers(1, 9))]
            elif kind == 3:
                record[at:at] = record[at : at + int(dice.integers(1, 9))]
            else:
                record += encode_example(plain(dice))
            if not record:
                break
        found = parse(bytes(record), 0x0A)
        assert found == parse(bytes(record), 0xFF)
        if found is not None:
            taken += 1
            np.testing.assert_equal(found, expected(bytes(record)))
    assert taken > 50
