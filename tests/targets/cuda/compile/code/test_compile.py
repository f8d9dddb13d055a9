"""Kernel texts to PTX and machine code, without a device."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dfc.bundle import disk_cache
from dfc.ir.dims import dim
from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.lower.legalise.library import library
from dfc.lower.threads.schedule import Geometry
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_target_cuda.code import assemble as assembling
from dfc_target_cuda.code import compile as compiling
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from dfc_target_cuda.code.compile import key_of, prepared, ptx_module
from dfc_target_cuda.code.compiler_process import compile_texts
from tests.support.sweeping import few
from tests.support.warm_compiler import needs_numba

pytestmark = needs_numba
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
PLACE = "i = block_index() * block_size() + thread()"


def text(name: str, parameters: str, body: str, pointers: tuple[DType, ...], workspace: int = 0) -> KernelText:
    source = f"def {name}({parameters}, error):\n" + "".join(f"    {line}\n" for line in (PLACE, *body.splitlines()))
    sizes = len(parameters.split(", ")) - len(pointers) - (workspace > 0)
    return KernelText(name, source, pointers, sizes, Geometry(dim(1), 1, 256, 1), dim(workspace))


SCALE = text("k3", "a, b, d0", "if i < d0:\n    b[i] = f32_add(f32_mul(a[i], a[i]), f32_div(a[i], b[i]))", (F32, F32))
EXP = text("k5", "a", "a[i] = f64_exp(a[i])", (F64,))


def test_arithmetic_is_as_written() -> None:
    ptx = ptx_module([SCALE], "compute_80")
    assert "fma.rn" not in ptx
    assert all(word in ptx for word in ("mul.rn.f32", "add.rn.f32", "div.rn.f32", ".target sm_80", ".maxntid 256"))
    assert "ftz" not in ptx


def test_entries_have_the_names_of_their_texts() -> None:
    ptx = ptx_module([SCALE, EXP], "compute_90")
    assert re.findall(r"\.entry (\w+)\(", ptx) == ["k3", "k5"]
    assert ptx.count(".version") == 1
    assert "Numba" not in ptx and "_Z" not in ptx


def test_equal_texts_give_equal_bytes_whatever_was_compiled_before() -> None:
    """One process compiles all of a request, the longest text first, so that each of these has been second."""
    longer = text(
        "k3",
        "a, b, d0",
        "b[i] = f32_mul(f32_mul(f32_mul(a[i], a[i]), a[i]), f32_mul(a[i], f32_mul(a[i], a[i])))",
        (F32, F32),
    )
    shorter = text("k3", "a", "a[i] = f32(0.0)", (F32,))
    modules: list[str] = []
    for before in ([], [longer], [shorter]):
        ptx = compile_texts([key_of(each) for each in (*before, EXP, SCALE)], "compute_80", 1)
        modules.append("\n".join(ptx[len(before) :]))
    assert len(EXP.source) < len(SCALE.source) < len(longer.source) and len(shorter.source) < len(EXP.source)
    assert modules[0] == modules[1] == modules[2]


def test_wide_accesses_and_shared_memory_are_instructions() -> None:
    body = """x, y, z, w = load4_f32(a, i * 4)
memory = shared_f32(1024)
store4_f32(memory, thread() * 4, y, x, w, z)
barrier()
x, y, z, w = load4_f32(memory, 1020 - thread() * 4)
store4_f32(a, i * 4, x, y, z, w)"""
    ptx = ptx_module([text("k0", "a", body, (F32,))], "compute_80")
    for instruction in ("ld.global.v4.f32", "st.shared.v4.f32", "bar.sync", "ld.shared.v4.f32", "st.global.v4.f32"):
        assert instruction in ptx, instruction


def test_workspace_is_a_parameter_before_the_error_block() -> None:
    body = "part = f32_pointer(workspace, 64)\npart[i] = f32(d0)\nreport(error, 3, 1, 2)"
    ptx = ptx_module([text("k0", "a, d0, workspace", body, (F32,), workspace=128)], "compute_80")
    assert len(re.findall(r"\.param \.u64", ptx.split(")")[0])) == 4
    assert "atom.global.cas.b64" in ptx or "atom.cas.b64" in ptx


def test_wrong_text_is_an_error_that_shows_it() -> None:
    with pytest.raises(CodeGenerationError, match="no_such_name"):
        ptx_module([text("k0", "a", "a[i] = no_such_name(a[i])", (F32,))], "compute_80")


@needs_ptxas
def test_reports_say_registers_spills_and_shared_memory() -> None:
    body = "memory = shared_f64(512)\nmemory[thread()] = a[i]\nbarrier()\na[i] = memory[255 - thread()]"
    assembled = assemble(ptx_module([SCALE, text("k7", "a", body, (F64,))], "compute_80"), "sm_90")
    assert assembled is not None
    assert assembled.code[:4] == b"\x7fELF"
    reports = {report.name: report for report in assembled.reports}
    assert list(reports) == ["k3", "k7"]
    assert reports["k7"].shared_bytes >= 4096 and reports["k3"].shared_bytes == 0
    assert all(0 < r.registers <= 32 and r.spill_bytes == 0 and r.stack_bytes == 0 for r in reports.values())


@pytest.mark.parametrize(("version", "known"), [("13.0.88", True), ("12.0.140", False), ("", False)])
def test_only_an_assembler_that_can_is_asked_to_work_in_threads(
    monkeypatch: pytest.MonkeyPatch, version: str, known: bool
) -> None:
    """Of a fixed number, which code names: equal bytes on machines of any number of cores."""
    monkeypatch.setattr(assembling, "assembler_version", lambda: version)
    assert ("--split-compile=4" in assembling._options()) == known


@needs_ptxas
def test_what_ptxas_refuses_is_an_error() -> None:
    with pytest.raises(CodeGenerationError, match="ptxas refuses"):
        assemble(ptx_module([SCALE], "compute_80").replace("mul.rn.f32", "mul.no.f32"), "sm_80")


def _calls(kind: str) -> list[KernelText]:
    """A kernel for every function of the library whose name begins so, between memory and memory."""
    made: list[KernelText] = []
    for function in (one for name, one in library().items() if name.startswith(kind)):
        inputs, results = [parameter.dtype for parameter in function.parameters], function.result_types
        operands = [f"p{number}" for number in range(len(inputs) + len(results))]
        loads = [f"boolean({o}[i])" if t.is_bool else f"{o}[i]" for o, t in zip(operands, inputs, strict=False)]
        outputs = operands[len(inputs) :]
        lines = [f"{', '.join('r' + o for o in outputs)} = {function.name}({', '.join(loads)})"]
        lines += [f"{o}[i] = {'u8' if t.is_bool else t}(r{o})" for o, t in zip(outputs, results, strict=True)]
        made.append(text(f"k{len(made)}", ", ".join(operands), "\n".join(lines), (*inputs, *results)))
    return made


@needs_ptxas
@pytest.mark.parametrize("kind", few(["f32_", "f64_", "i8_", "u64_", "to_i32", "bf16_", "philox_"], 2))
def test_every_function_becomes_code_without_spills(kind: str) -> None:
    texts = _calls(kind)
    assert len(texts) >= 2
    for architecture in ("sm_80", "sm_90"):
        assembled = assemble(ptx_module(texts, "compute_80"), architecture)
        assert assembled is not None and len(assembled.reports) == len(texts)
        for report in assembled.reports:
            assert report.spill_bytes == report.stack_bytes == 0, (report, texts[int(report.name[1:])].source)
            assert report.registers <= 64, (report, texts[int(report.name[1:])].source)


def test_a_missing_compiler_is_named_with_a_remedy() -> None:
    program = """import sys
sys.modules["numba_cuda"] = None
from tests.targets.cuda.compile.code.test_compile import SCALE, ptx_module
try:
    ptx_module([SCALE], "compute_80")
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[E1004]") and "pip install 'dfc[cuda]'" in done.stdout


def test_a_module_has_kernels() -> None:
    with pytest.raises(CodeGenerationError, match="without kernels"):
        ptx_module([], "compute_80")


def test_the_compiler_begins_early_for_a_program_that_was_not_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @contextmanager
    def begin(architecture: str) -> Iterator[None]:
        begun.append(architecture)
        yield

    monkeypatch.setattr(compiling, "begun", begin)
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    with pytest.raises(KeyError), prepared("a program", "compute_80"):
        raise KeyError  # which is no reason to think that it was compiled
    for _ in range(2):
        with prepared("a program", "compute_80"):
            assert begun == ["compute_80"] * 2
    with prepared("another", "compute_80"), prepared("a program", "compute_90"):
        assert begun == [*["compute_80"] * 3, "compute_90"]
    monkeypatch.setenv(disk_cache.VARIABLE, "0")
    with prepared("another", "compute_80"):
        assert len(begun) == 5
