"""PTX of kernel texts: compiled once, and kept."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from dfc.bundle.disk_cache import DiskCache
from dfc_target_cuda.code.fragments import Fragments, TextKey

TEXTS = [
    TextKey(f"def kernel(a, error):\n    a[thread()] = i32(a[thread()] + {number})\n", ("i32",), 0, False, 32)
    for number in range(12)
]

OFF = DiskCache(None)


def counted(made: list[TextKey]) -> Fragments:
    """Compiles to what names the text."""

    def compile_texts(keys: Sequence[TextKey], architecture: str, at_once: int) -> list[str]:
        assert at_once >= 1
        made.extend(keys)
        return [f"{architecture} {TEXTS.index(key) if key in TEXTS else key}" for key in keys]

    return Fragments(compile_texts)


def test_each_text_is_compiled_once() -> None:
    made: list[TextKey] = []
    fragments = counted(made)
    assert fragments.get([TEXTS[1], TEXTS[0], TEXTS[1]], "compute_80", OFF, "", at_once=1) == [
        "compute_80 1",
        "compute_80 0",
        "compute_80 1",
    ]
    fragments.get([TEXTS[0]], "compute_80", OFF, "")
    fragments.get([TEXTS[0]], "compute_90", OFF, "")
    assert made == [TEXTS[1], TEXTS[0], TEXTS[0]]


def test_a_cache_serves_the_same_text_architecture_and_compiler_only(tmp_path: Path) -> None:
    made: list[TextKey] = []
    cache = DiskCache(tmp_path)
    assert counted(made).get(TEXTS[:2], "compute_80", cache, "v1") == ["compute_80 0", "compute_80 1"]
    assert counted(made).get(TEXTS[:3], "compute_80", cache, "v1") == [f"compute_80 {n}" for n in range(3)]
    assert made == TEXTS[:3]
    for key, architecture, compiler in ((TEXTS[0], "compute_90", "v1"), (TEXTS[0], "compute_80", "v2")):
        made.clear()
        counted(made).get([key], architecture, cache, compiler)
        assert made == [key]
    changes = {"pointers": ("f32",), "sizes": 1, "workspace": True, "threads": 64, "source": "def kernel(error): ..."}
    for name, value in changes.items():
        changed = dataclasses.replace(TEXTS[0], **{name: value})
        made.clear()
        counted(made).get([changed], "compute_80", cache, "v1")
        assert made == [changed], name


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    def fail(*_: object) -> list[str]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Fragments(fail).get(TEXTS[:1], "compute_80", DiskCache(tmp_path), "v1")
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_is_not_known_keeps_nothing(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    for _ in range(2):
        made: list[TextKey] = []
        counted(made).get(TEXTS[:2], "compute_80", cache, "")
        assert made == TEXTS[:2]
    assert list(tmp_path.iterdir()) == []
