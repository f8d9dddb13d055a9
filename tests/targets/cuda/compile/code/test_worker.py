"""The process that compiles: what it is asked, what it answers, and that nothing else decides on code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_runtime.errors import UnsupportedError
from dfc_target_cuda.code import compiler_process
from dfc_target_cuda.code.compiler_process import begun, compile_texts
from dfc_target_cuda.code.fragments import TextKey
from tests.support.warm_compiler import WarmProcess, needs_numba

pytestmark = needs_numba
CompilerProcess = compiler_process.CompilerProcess
"""That of the product, in whose place there is another one while tests run."""


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request starts a process of its own, as in the product."""
    monkeypatch.setattr(compiler_process, "CompilerProcess", CompilerProcess)


def key(body: str) -> TextKey:
    return TextKey(f"def kernel(a, error):\n    {body}\n", ("f32",), 0, False, 32)


ADD, EXP = key("a[thread()] = f32_add(a[0], f32(2))"), key("a[thread()] = f32_exp(a[0])")


def test_code_is_the_same_in_company() -> None:
    (alone,) = compile_texts([EXP], "compute_80", 1)
    texts = [key(f"a[thread()] = f32_add(a[0], f32({number}))") for number in range(12)]
    several = compile_texts([*texts, EXP], "compute_80", 2)
    assert several[-1] == alone
    assert compile_texts(texts[::-1], "compute_80", 2) == several[-2::-1]


def test_what_configures_numba_decides_on_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor does it matter whether the process is one that has compiled nothing before."""
    expected = compile_texts([ADD], "compute_80", 1)
    monkeypatch.setattr(compiler_process, "CompilerProcess", CompilerProcess)
    for name, value in (("NUMBA_ENABLE_CUDASIM", "1"), ("NUMBA_OPT", "0"), ("PYTHONHASHSEED", "7")):
        monkeypatch.setenv(name, value)
    (tmp_path / ".numba_config.yaml").write_text("opt: 0\n")
    monkeypatch.chdir(tmp_path)
    assert compile_texts([ADD], "compute_80", 1) == expected


def test_the_first_wrong_text_is_the_one_reported() -> None:
    wrong = [key(f"a[0] = {value}") for value in ("i64(1)", "u64(longer_than_the_others)", "1.0")]
    with pytest.raises(CodeGenerationError, match="float32 is expected, and this is int64"):
        compile_texts([ADD, wrong[0], wrong[2]], "compute_80", 2)
    with pytest.raises(CodeGenerationError, match="not a name of the prelude: longer_than_the_others"):
        compile_texts([ADD, wrong[1], wrong[0]], "compute_80", 2)


def test_a_missing_library_is_an_answer_that_becomes_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"texts": [], "at_once": 1}
    program = f"""import io, sys
sys.modules["cuda.bindings.nvjitlink"] = None
from dfc_target_cuda.code import worker
replies = io.BytesIO()
worker.serve(io.BytesIO({json.dumps(request).encode()!r}), replies, "compute_80")
print(replies.getvalue().decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert "nvjitlink" in answer["missing"]
    monkeypatch.setattr(WarmProcess, "ask", lambda *_: done.stdout.encode())
    with pytest.raises(UnsupportedError, match=r"E1004.*nvjitlink.*pip install 'dfc\[cuda\]'"):
        compile_texts([ADD], "compute_80", 1)


@pytest.mark.usefixtures("cold")
def test_a_worker_that_breaks_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_process, "WORKER", "no_such_module")
    with pytest.raises(CodeGenerationError, match=r"ended with 1: .*No module named no_such_module"):
        compile_texts([ADD], "compute_80", 1)


def test_an_answer_to_no_texts_is_empty() -> None:
    assert compile_texts([], "compute_80", 1) == []


@pytest.mark.usefixtures("cold")
def test_a_process_that_began_before_is_asked_and_one_that_is_not_asked_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[compiler_process.CompilerProcess] = []
    plain = CompilerProcess.__init__

    def count(self: compiler_process.CompilerProcess, architecture: str) -> None:
        plain(self, architecture)
        processes.append(self)

    monkeypatch.setattr(CompilerProcess, "__init__", count)
    with begun("compute_80"), begun("compute_90"):
        (ptx,) = compile_texts([ADD], "compute_80", 1)
        assert ".target sm_80" in ptx and len(processes) == 2
        ends = [one._process.poll() for one in processes]
        assert ends == [0, None]
    assert processes[1]._process.poll() == -9 and not Path(processes[1]._folder.name).exists()
    monkeypatch.setattr(compiler_process, "WORKER", "no_such_module")
    with pytest.raises(CodeGenerationError):
        compile_texts([ADD], "compute_80", 1)
    assert len(processes) == 3, "none is asked twice"
