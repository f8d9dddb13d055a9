"""Objects from several processes: the same as from one, whatever becomes of the others."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.link import parallel
from dfc_target_cpu.link.compile import OPTIMISED, PLAIN, WRITTEN_OUT, compile_object
from dfc_target_cpu.machine import AARCH64, X86_64_V3


def text(number: int) -> str:
    return f"define dso_local i64 @f(i64 %x) {{\nentry:\n  %y = mul i64 %x, {number}\n  ret i64 %y\n}}\n"


TEXTS = [text(number) for number in range(12)]
JOBS = [(each, (OPTIMISED, WRITTEN_OUT)[number % 2]) for number, each in enumerate(TEXTS)]
ALONE = [compile_object(each, X86_64_V3, speed_level=level) for each, level in JOBS]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Small texts are worth three processes. What was started."""
    monkeypatch.setattr(parallel, "PAYS_FROM", 1)
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: {0, 1, 2})
    started: list[list[str]] = []
    popen = parallel.subprocess.Popen

    def start(command: list[str], **options: object) -> object:
        started.append(command)
        return popen(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(parallel.subprocess, "Popen", start)
    return started


def test_others_make_the_same_objects(shared: list[list[str]]) -> None:
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE
    assert len(shared) == 2


def test_each_process_is_given_texts_until_none_is_left(
    shared: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[str] = []

    def only_the_first(each: str, machine: object, *, speed_level: int) -> bytes:
        here.append(each)
        asked.join(60)  # until others have taken all that is left
        return ALONE[TEXTS.index(each)]

    class Jobs(parallel._Jobs):  # pyright: ignore[reportPrivateUsage]
        def take(self) -> int | None:
            number = super().take()
            if number is None:
                asked.done = True
            return number

    class Asked:
        done = False

        def join(self, seconds: float) -> None:
            end = time.monotonic() + seconds
            while not self.done and time.monotonic() < end:
                time.sleep(0.01)

    asked = Asked()
    monkeypatch.setattr(parallel, "_Jobs", Jobs)
    monkeypatch.setattr(parallel.compiler, "compile_object", only_the_first)
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE
    assert len(here) == 1


def test_small_programs_start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel.subprocess, "Popen", None)
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("module", ["no.such.module", "this"])  # one ends at once, one writes something else
def test_a_process_that_ends_is_done_without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORKER", module)
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE


@pytest.mark.usefixtures("shared")
def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(parallel, "WORKER", "hanging")
    monkeypatch.setattr(parallel, "PATIENCE", 0.0)
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE


@pytest.mark.usefixtures("shared")
def test_files_of_the_working_folder_are_not_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("dataclasses", "llvmlite", "random"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.chdir(tmp_path)
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE
    assert not (tmp_path / "ran").exists()


def test_a_program_with_python_inside_is_not_started_again(
    shared: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/editor/bin/editor")
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE and not shared


@pytest.mark.usefixtures("shared")
def test_a_process_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/none/python3")
    assert parallel.compile_texts(JOBS, X86_64_V3) == ALONE


@pytest.mark.usefixtures("shared")
def test_what_llvm_refuses_is_said_as_from_one_process() -> None:
    with pytest.raises(CodeGenerationError, match="LLVM refuses"):
        parallel.compile_texts([*JOBS, ("define nonsense", 2)], X86_64_V3)


def test_a_stream_that_ends_early_is_noticed() -> None:
    stream = io.BytesIO()
    parallel.send(stream, b"object")
    whole = stream.getvalue()
    assert parallel.receive(io.BytesIO(whole)) == b"object"
    for end in (0, 3, len(whole) - 1):
        with pytest.raises(EOFError):
            parallel.receive(io.BytesIO(whole[:end]))


def test_another_process_is_given_machine_tuning_and_level() -> None:
    asked = io.BytesIO()
    parallel.send(asked, str(PLAIN).encode())
    parallel.send(asked, TEXTS[3].encode())
    command = [sys.executable, "-m", parallel.WORKER, AARCH64.name, ""]
    ended = subprocess.run(command, input=asked.getvalue(), capture_output=True, check=True)
    assert parallel.receive(io.BytesIO(ended.stdout)) == compile_object(TEXTS[3], AARCH64, speed_level=PLAIN)
