"""Kernel texts compiled by several threads: the same results as by one, each text once."""

import dataclasses
import sys
import threading
from pathlib import Path

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code import compile as compiling
from dfc_target_cuda.code.disk_cache import DiskCache
from dfc_target_cuda.code.fragments import Fragments, TextKey

TEXTS = [
    TextKey(f"def kernel(a, error):\n    a[thread()] = i32(a[thread()] + {number})\n", ("i32",), 0, False, 32)
    for number in range(12)
]

OFF = DiskCache(None)


def counted(made: list[TextKey]) -> Fragments:
    """Compiles to what names the text."""

    def one(key: TextKey, architecture: str) -> str:
        made.append(key)
        return f"{architecture} {TEXTS.index(key)}"

    return Fragments(one)


def test_several_threads_give_what_one_gives() -> None:
    pytest.importorskip("cuda.bindings.nvvm")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        both = Fragments(compiling.fragment).get(TEXTS, "compute_80", OFF, "", threads=4)
    finally:
        sys.setswitchinterval(interval)
    assert both == [compiling.fragment(key, "compute_80") for key in TEXTS]


def test_each_text_is_compiled_once() -> None:
    made: list[TextKey] = []
    fragments = counted(made)
    assert fragments.get([TEXTS[1], TEXTS[0], TEXTS[1]], "compute_80", OFF, "", threads=1) == [
        "compute_80 1",
        "compute_80 0",
        "compute_80 1",
    ]
    fragments.get([TEXTS[0]], "compute_80", OFF, "")
    fragments.get([TEXTS[0]], "compute_90", OFF, "")
    assert made == [TEXTS[1], TEXTS[0], TEXTS[0]]


def test_as_many_are_compiled_at_once_as_asked_for() -> None:
    meeting = threading.Barrier(3)  # which nobody would pass alone

    def one(key: TextKey, architecture: str) -> str:
        meeting.wait(60)
        return key.source

    assert Fragments(one).get(TEXTS[:3], "compute_80", OFF, "", threads=3) == [key.source for key in TEXTS[:3]]


def test_a_mistake_is_that_of_the_first_wrong_text() -> None:
    wrong = [TextKey(f"def kernel(a, error):\n    a[0] = {name}\n", ("i32",), 0, False, 32) for name in ("x", "y")]
    for _ in range(5):
        with pytest.raises(CodeGenerationError, match=r"not a name of the prelude: x$"):
            Fragments(compiling.fragment).get([TEXTS[0], *wrong, *TEXTS[1:]], "compute_80", OFF, "", threads=4)


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
        seen: list[TextKey] = []

        def one(key: TextKey, architecture: str, seen: list[TextKey] = seen) -> str:
            seen.append(key)
            return ""

        Fragments(one).get([changed], "compute_80", cache, "v1")
        assert seen == [changed], name


def test_a_compiler_that_is_not_known_keeps_nothing(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    for _ in range(2):
        made: list[TextKey] = []
        counted(made).get(TEXTS[:2], "compute_80", cache, "")
        assert made == TEXTS[:2]
    assert list(tmp_path.iterdir()) == []
