"""Objects of module texts: equal text goes through LLVM once, anything else that decides on code does again."""

import itertools

import pytest

from dfc_target_cpu.link import build
from dfc_target_cpu.link.compile import compile_object
from dfc_target_cpu.machine import AARCH64, X86_64_V3, Machine

NUMBERS = itertools.count()


def fresh_text() -> str:
    """A module that no test has compiled before."""
    return f"define dso_local i64 @f() {{\nentry:\n  ret i64 {next(NUMBERS)}\n}}\n"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What LLVM was asked for: text, machine, level."""
    asked: list[tuple[str, str, int]] = []

    def noting(text: str, machine: Machine, *, speed_level: int = 2) -> bytes:
        asked.append((text, machine.name, speed_level))
        return compile_object(text, machine, speed_level=speed_level)

    monkeypatch.setattr(build, "compile_object", noting)
    build._object.cache_clear()
    return asked


def test_equal_text_is_compiled_once(compiled: list[tuple[str, str, int]]) -> None:
    one, other = fresh_text(), fresh_text()
    first = build.compile_objects([one, other, one], X86_64_V3)
    assert build.compile_objects([one], X86_64_V3) == [first[0]] == [compile_object(one, X86_64_V3)]
    assert first[0] == first[2] != first[1]
    assert [text for text, _, _ in compiled] == [one, other]


def test_another_machine_or_level_is_compiled_again(compiled: list[tuple[str, str, int]]) -> None:
    text = fresh_text()
    objects = [build.compile_objects([text], machine)[0] for machine in (X86_64_V3, AARCH64)]
    assert objects == [compile_object(text, machine) for machine in (X86_64_V3, AARCH64)]
    assert objects[0] != objects[1]
    build.compile_objects([text], X86_64_V3, speed_level=0)
    assert compiled == [(text, "x86-64-v3", 2), (text, "aarch64", 2), (text, "x86-64-v3", 0)]


def test_a_long_process_keeps_few_objects(compiled: list[tuple[str, str, int]]) -> None:
    texts = [fresh_text() for _ in range(40)]
    build.compile_objects(texts, X86_64_V3)
    build.compile_objects(texts[-3:], X86_64_V3)
    assert len(compiled) == 40
    build.compile_objects(texts[:1], X86_64_V3)
    assert len(compiled) == 41
