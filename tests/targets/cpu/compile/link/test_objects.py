"""Objects of module texts: equal text goes through LLVM once, anything else that decides on code does again."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from dfc_target_cpu.link import build, compile, objects
from dfc_target_cpu.link.compile import compile_object
from dfc_target_cpu.machine import AARCH64, X86_64_V3, Machine

NUMBERS = itertools.count()


def fresh_text() -> str:
    """A module that no test has compiled before."""
    return f"define dso_local i64 @f() {{\nentry:\n  ret i64 {next(NUMBERS)}\n}}\n"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What LLVM was asked for: text, machine, level. Nothing is kept on disk."""
    monkeypatch.setenv("DFC_CACHE", "0")
    asked: list[tuple[str, str, int]] = []

    def noting(text: str, machine: Machine, *, speed_level: int = 2) -> bytes:
        asked.append((text, machine.name, speed_level))
        return compile_object(text, machine, speed_level=speed_level)

    monkeypatch.setattr(compile, "compile_object", noting)
    objects.KEPT.clear()
    return asked


def forget() -> None:
    """As another process would begin."""
    objects.KEPT.clear()


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


def test_a_long_process_keeps_what_it_used_last(
    compiled: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [fresh_text() for _ in range(40)]
    size = len(compile_object(texts[0], X86_64_V3))
    monkeypatch.setattr(objects, "KEPT", objects.Kept(16 * (size + 8)))
    build.compile_objects(texts, X86_64_V3)
    assert len(compiled) == 40
    build.compile_objects(texts[-8:], X86_64_V3)
    assert len(compiled) == 40
    build.compile_objects([fresh_text() for _ in range(12)], X86_64_V3)
    build.compile_objects(texts[-2:], X86_64_V3)
    assert len(compiled) == 52, "they were used after the others"
    build.compile_objects(texts[:1], X86_64_V3)
    assert len(compiled) == 53


def test_what_another_process_compiled_is_read_from_disk(
    compiled: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_CACHE", str(tmp_path))
    text, library = fresh_text(), fresh_text()
    first = build.compile_objects([text], X86_64_V3, libraries=[library])
    assert len(compiled) == 2 == len(list(tmp_path.iterdir()))
    forget()
    assert build.compile_objects([text], X86_64_V3, libraries=[library]) == first and len(compiled) == 2
    forget()
    monkeypatch.setenv("DFC_CACHE", "0")
    assert build.compile_objects([text], X86_64_V3, libraries=[library]) == first and len(compiled) == 4


def test_all_that_decides_on_code_has_an_entry_of_its_own(
    compiled: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_CACHE", str(tmp_path))
    text = fresh_text()
    tuned = replace(X86_64_V3, tuning="-prefer-256-bit")
    for number, (machine, level) in enumerate([(X86_64_V3, 2), (X86_64_V3, 1), (AARCH64, 2), (tuned, 2)], 1):
        build.compile_objects([text], machine, speed_level=level)
        assert len(compiled) == number == len(list(tmp_path.iterdir()))
    forget()
    monkeypatch.setattr(compile, "identity", lambda: "another LLVM")
    build.compile_objects([text], X86_64_V3)
    assert len(compiled) == 5


def test_a_damaged_entry_is_compiled_again(
    compiled: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_CACHE", str(tmp_path))
    text = fresh_text()
    first = build.compile_objects([text], X86_64_V3)
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    forget()
    assert build.compile_objects([text], X86_64_V3) == first and len(compiled) == 2


def test_nothing_is_kept_of_an_llvm_that_nobody_knows(
    compiled: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_CACHE", str(tmp_path))
    monkeypatch.setattr(compile, "identity", lambda: "")
    build.compile_objects([fresh_text()], X86_64_V3)
    assert len(compiled) == 1 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "value"), [("_LIBRARY", "another build"), ("_SOURCE", b"another list of passes")])
def test_the_library_and_how_it_is_used_identify_a_compiler(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = compile.identity.__wrapped__()
    assert known == compile.identity() != ""
    monkeypatch.setattr(compile, name, value)
    assert compile.identity.__wrapped__() not in (known, "")
    monkeypatch.setattr(compile, name, type(value)())
    assert compile.identity.__wrapped__() == ""


def test_the_version_identifies_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    known = compile.identity.__wrapped__()
    monkeypatch.setattr(compile, "compilers", lambda: {"LLVM": "1.0"})
    assert compile.identity.__wrapped__() != known
