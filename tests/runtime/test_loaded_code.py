"""Mapped code that a target made: it runs, is not writable, and ends where the image ends."""

import ctypes
from pathlib import Path

import pytest

from dfc_runtime.code_memory import MappedCode
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from tests.support.cpu_code import host, load


def test_code_is_never_writable_and_executable():
    m = ModuleText(host().triple)
    f = m.function("same", "i64", [Parameter("i64", "x")], linkage="external")
    f.ret(f.arguments[0])
    m.add(f)
    code = load(m)
    assert code.function("same", ctypes.c_int64, ctypes.c_int64)(42) == 42
    maps = Path("/proc/self/maps").read_text()
    (line,) = [row for row in maps.splitlines() if row.startswith(f"{code.loaded.base:x}-")]
    assert line.split()[1].startswith("r-xp")


def test_offsets_outside_the_image_are_refused():
    image = MappedCode(b"\xc3" * 10)
    with pytest.raises(ValueError, match="outside the image"):
        image.address(10)
    with pytest.raises(ValueError, match="outside the image"):
        image.address(-1)


def test_empty_image_is_refused():
    with pytest.raises(ValueError, match="empty"):
        MappedCode(b"")
