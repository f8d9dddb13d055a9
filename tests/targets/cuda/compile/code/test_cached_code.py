"""What is compiled once and kept on disk: the same code, of all that decides on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import dfc
from dfc.bundle import disk_cache
from dfc_target_cuda.code import compile as compiling
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from tests.dfc.bundle.test_disk_cache import files
from tests.support.warm_compiler import VARIABLE, needs_numba, server

PROGRAM = """
import sys
from dfc.bundle import disk_cache
from dfc_target_cuda.code import assemble, compile, compiler_process
from tests.support.warm_compiler import warm_compilers
from tests.targets.cuda.compile.code.test_compile import EXP, SCALE

def refuse(*_):
    raise SystemExit("compiled again")

with warm_compilers():
    if sys.argv[1] == "kept":
        compiler_process.CompilerProcess = assemble._run = refuse
    ptx = compile.ptx_module([EXP, SCALE], "compute_80")
made = assemble.assemble(ptx, "sm_90")
print(disk_cache.digest(ptx, made.code, repr(made.reports)))
"""


def compiled(folder: str, how: str = "") -> str:
    shared = {disk_cache.VARIABLE: folder, VARIABLE: server()}
    environment = {**os.environ, **shared, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_that_decides_on_code_decides_on_what_is_kept() -> None:
    """What compiling loads is part of what tells entries apart, but for what only carries or simulates."""
    program = """
import sys
from dfc_target_cuda.code import compile, device_functions, link, worker
device_functions.names()
print(*sorted(n for n in sys.modules if n.startswith(('dfc.', 'dfc_target_cuda.'))))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    package, compiler = Path(compiling.__file__).parents[1], Path(dfc.__file__).parent
    own = _matching(package, compiling.SOURCES)
    loaded = {_file(package, name) for name in told if name.startswith("dfc_target_cuda.")}
    carriers = {f"{name}/__init__.py" for name in ("code", "kernels", "kernels/prelude")}
    carriers |= {f"code/{name}.py" for name in ("compiler_process", "forks", "fragments")}
    assert {str(path.relative_to(package)) for path in loaded - own} == carriers
    assert own - loaded == set(), "a file that does not matter"
    shared = {_file(compiler, name) for name in told if name.startswith("dfc.")}
    others = {str(path.relative_to(compiler)) for path in shared - _matching(compiler, compiling.COMPILER_SOURCES)}
    packages = {f"{name}/__init__.py" for name in ("bundle", "deferred", "ir", "lower")}
    assert others == packages | {"bundle/disk_cache.py", "version.py"}, "and no code"


def _matching(folder: Path, patterns: Sequence[str]) -> set[Path]:
    return {path for pattern in patterns for path in folder.glob(pattern)}


def _file(folder: Path, module: str) -> Path:
    path = folder / module.split(".", 1)[1].replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


CACHED = """
import sys
from dfc.ir.dims import dim
from dfc.ir.dtypes import F64
from dfc_target_cuda.code import compile
from dfc.lower.threads.schedule import Geometry
from dfc.lower.threads.text.kernel_text import KernelText
from tests.support.warm_compiler import warm_compilers
source = "def k0(a, error):\\n    a[0] = f64_exp(a[0])\\n"
with warm_compilers():
    compile.ptx_module([KernelText("k0", source, (F64,), 0, Geometry(dim(1), 1, 256, 1))], "compute_80")
print(*sorted({name.split(".")[0] for name in sys.modules} & {"numba", "numba_cuda", "llvmlite", "cuda"}))
"""


@needs_numba
def test_what_was_compiled_before_needs_neither_numba_nor_a_library(tmp_path: Path) -> None:
    shared = {disk_cache.VARIABLE: str(tmp_path), VARIABLE: server()}
    environment = {**os.environ, **shared, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CACHED]
    told = [
        subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout for _ in range(2)
    ]
    assert told == ["\n", "\n"], "which a process of its own has, and only the first time"


@needs_numba
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_code_is_the_same_with_and_without_and_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    code = compiled(str(folder))
    assert code == compiled("0") == compiled(str(folder), "kept")
    assert len(files(folder)) == 3, "texts and machine code"
    for name in files(folder):
        (folder / name).write_bytes(b"damaged")
    assert compiled(str(folder)) == code == compiled(str(folder), "kept")


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_machine_code_of_another_assembler_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfc_target_cuda.code import assemble as assembling

    path = find_ptxas()
    assert path is not None
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "cache"))
    ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k0()\n{\nret;\n}\n"
    for identity, count in (("one build", 1), ("another build", 2), ("one build", 2)):
        monkeypatch.setattr(assembling, "file_identity", lambda _, known=identity: known)
        assembling._kept.cache_clear()  # pyright: ignore[reportPrivateUsage]
        assert assemble(ptx, "sm_90") is not None
        assert len(files(tmp_path / "cache")) == count
