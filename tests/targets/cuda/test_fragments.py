"""Kernel texts compiled by several processes: the same results as by one, whatever becomes of the others."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from dfc_targets.cuda import compile as compiling
from dfc_targets.cuda.fragments import Fragments, TextKey, serve
from dfc_targets.errors import CodeGenerationError

TEXTS = [
    TextKey(f"def kernel(a, error):\n    a[thread()] = i32(a[thread()] + {number})\n", ("i32",), 0, False, 32)
    for number in range(12)
]


def counted(made: list[TextKey]) -> Fragments:
    """Compiles in this process to what names the text."""

    def one(key: TextKey, architecture: str) -> str:
        made.append(key)
        return f"{architecture} {TEXTS.index(key)}"

    return Fragments(one)


def test_two_processes_give_what_one_gives() -> None:
    pytest.importorskip("numba.cuda")
    made: list[TextKey] = []

    def one(key: TextKey, architecture: str) -> str:
        made.append(key)
        return compiling.fragment(key, architecture)

    both = Fragments(one).get(TEXTS, "compute_80", processes=2)
    assert len(made) == 6
    assert both == [compiling.fragment(key, "compute_80") for key in TEXTS]


def test_each_text_is_compiled_once() -> None:
    made: list[TextKey] = []
    fragments = counted(made)
    assert fragments.get([TEXTS[1], TEXTS[0], TEXTS[1]], "compute_80") == [
        "compute_80 1",
        "compute_80 0",
        "compute_80 1",
    ]
    fragments.get([TEXTS[0]], "compute_80")
    fragments.get([TEXTS[0]], "compute_90")
    assert made == [TEXTS[1], TEXTS[0], TEXTS[0]]


@pytest.mark.parametrize("failure", ["no process", "exit status"])
def test_what_another_process_does_not_deliver_is_compiled_here(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def run(command: Sequence[str], **options: Any) -> Any:
        started.append(command)
        if failure == "no process":
            raise OSError("none to be had")
        return original([sys.executable, "-c", "raise SystemExit(3)"], **options)

    original = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    made: list[TextKey] = []
    assert counted(made).get(TEXTS, "compute_80", processes=2) == [f"compute_80 {number}" for number in range(12)]
    assert len(started) == 1 and sorted(map(TEXTS.index, made)) == list(range(12))


def test_a_mistake_in_another_process_is_reported_here() -> None:
    pytest.importorskip("numba.cuda")
    wrong = TextKey("def kernel(a, error):\n    a[0] = no_such_name\n", ("i32",), 0, False, 32)
    with pytest.raises(CodeGenerationError, match="no_such_name"):
        Fragments(compiling.fragment).get([TEXTS[0], wrong, *TEXTS[1:11]], "compute_80", processes=2)


def test_few_texts_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert counted([]).get(TEXTS[:11], "compute_80", processes=8) == [f"compute_80 {number}" for number in range(11)]


def test_a_worker_answers_in_the_order_of_its_texts() -> None:
    given = io.BytesIO(
        json.dumps(["compute_80", [dict(zip(TextKey.__slots__, _fields(t), strict=True)) for t in TEXTS[:3]]]).encode()
    )
    made = io.BytesIO()
    serve(lambda key, architecture: f"{architecture} {TEXTS.index(key)}", given, made)
    assert json.loads(made.getvalue()) == ["compute_80 0", "compute_80 1", "compute_80 2"]


def _fields(key: TextKey) -> tuple[object, ...]:
    return key.source, key.pointers, key.sizes, key.workspace, key.threads
