"""Kernel texts compiled by several threads: the same results as by one, each text once."""

import sys
import threading

import pytest

from dfc_targets.cuda import compile as compiling
from dfc_targets.cuda.fragments import Fragments, TextKey
from dfc_targets.errors import CodeGenerationError

TEXTS = [
    TextKey(f"def kernel(a, error):\n    a[thread()] = i32(a[thread()] + {number})\n", ("i32",), 0, False, 32)
    for number in range(12)
]


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
        both = Fragments(compiling.fragment).get(TEXTS, "compute_80", threads=4)
    finally:
        sys.setswitchinterval(interval)
    assert both == [compiling.fragment(key, "compute_80") for key in TEXTS]


def test_each_text_is_compiled_once() -> None:
    made: list[TextKey] = []
    fragments = counted(made)
    assert fragments.get([TEXTS[1], TEXTS[0], TEXTS[1]], "compute_80", threads=1) == [
        "compute_80 1",
        "compute_80 0",
        "compute_80 1",
    ]
    fragments.get([TEXTS[0]], "compute_80")
    fragments.get([TEXTS[0]], "compute_90")
    assert made == [TEXTS[1], TEXTS[0], TEXTS[0]]


def test_as_many_are_compiled_at_once_as_asked_for() -> None:
    meeting = threading.Barrier(3)  # which nobody would pass alone

    def one(key: TextKey, architecture: str) -> str:
        meeting.wait(60)
        return key.source

    assert Fragments(one).get(TEXTS[:3], "compute_80", threads=3) == [key.source for key in TEXTS[:3]]


def test_a_mistake_is_that_of_the_first_wrong_text() -> None:
    wrong = [TextKey(f"def kernel(a, error):\n    a[0] = {name}\n", ("i32",), 0, False, 32) for name in ("x", "y")]
    for _ in range(5):
        with pytest.raises(CodeGenerationError, match=r"not a name of the prelude: x$"):
            Fragments(compiling.fragment).get([TEXTS[0], *wrong, *TEXTS[1:]], "compute_80", threads=4)
