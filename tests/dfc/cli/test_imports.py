"""What each command imports: half of what a short one takes. Counting modules depends on no load of the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.corpus import ROOT

DIGITS = ROOT / "samples" / "digits.dfg"
ARRAYS = {"numpy.linalg", "ml_dtypes"}  # `numpy` itself may be there, deferred
PARSER = {"lark", "dfc.syntax"}
COMPILER = {"llvmlite", "numba", "rich", "dfc.lower", "dfc.transforms", "dfc.distribute", "dfc.driver", "dfc.bundle"}
FRONT_END = {"dfc.elaborate", "dfc.ops", "dfc.ir"}
RANKS = {"mpi4py", "subprocess", "multiprocessing", "asyncio"}
MISTAKES = {"difflib", "dfc.syntax.messages"}
CHECKS = {*ARRAYS, *COMPILER, *RANKS, *MISTAKES, "interegular.patterns", "dfc_runtime.calls", "dfc_target_cpu"}
FORMATS = {*CHECKS, "dfc.elaborate", "dfc.ops"} - {"dfc.distribute", "dfc.syntax.messages"}
RUNS = PARSER | COMPILER | FRONT_END | {"mpi4py", "dfc_target_cpu", "dfc_target_cuda", "dfc_driver_cuda"}
LOOKS = {*RUNS, "dfc_driver_cpu", "dfc_runtime.calls.hosts", "dfc_runtime.distributed"}
OF_MANY = {"dfc.cli.ranks.process", "dfc_runtime.distributed.calls.cluster_module", "dfc_runtime.distributed.loading"}
"""What a run on one rank does without."""
SCRIPT = """if True:
    import sys
    from dfc.cli.main import cli
    cli.main(sys.argv[1:], standalone_mode=False)
    print(*sys.modules, sep="\\n")
"""
PREPARING = """if True:
    import sys
    from dfc_target_cuda.target import CudaTarget

    def prepare(*_):
        print(*sys.modules, sep="\\n")
        sys.exit()

    CudaTarget.prepare = prepare
    from dfc.cli.main import cli
    cli.main(sys.argv[1:], standalone_mode=False)
"""


def modules_of(folder: Path, *words: str, script: str = SCRIPT) -> list[str]:
    """The modules that a command has imported at its end."""
    command = [sys.executable, "-c", script, *words]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def ours(modules: Sequence[str]) -> list[str]:
    return [name for name in modules if name.startswith(("dfc.", "dfc_"))]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "one.bundle"
    path.write_bytes(api.compile(text="dfg 1\nentry f() -> i32 { return 1 }\n").to_bytes())
    return path


@pytest.mark.parametrize(
    ("words", "without", "most"),
    [
        ("--help", {"numpy", "dataclasses", *ARRAYS, *PARSER, *COMPILER, *FRONT_END, "dfc_runtime.calls"}, 12),
        ("explain E0304", {"numpy", "dataclasses", *ARRAYS, *PARSER, *COMPILER, *FRONT_END}, 15),
        ("check DIGITS", CHECKS, 261),
        ("fmt --check DIGITS", FORMATS, 66),
        ("run BUNDLE f", {*RUNS, *OF_MANY}, 127),
        ("run --help", {*RUNS, *OF_MANY, "dfc_driver_cpu"}, 110),
        ("inspect BUNDLE", {*LOOKS, *ARRAYS}, 46),
        ("verify BUNDLE", {*LOOKS, *ARRAYS}, 43),
    ],
)
def test_a_command_imports_what_it_needs(words: str, without: set[str], most: int, bundle: Path) -> None:
    files = {"BUNDLE": str(bundle), "DIGITS": str(DIGITS)}
    modules = modules_of(bundle.parent, *(files.get(word, word) for word in words.split()))
    assert sorted(without & set(modules)) == []
    assert len(ours(modules)) <= most, ours(modules)


def test_a_check_reads_with_lark_and_finishes_its_work() -> None:
    modules = modules_of(ROOT, "check", str(DIGITS))
    assert {"lark", "dfc.elaborate.build", "dfc.ops.nn.losses"} <= set(modules)


def test_a_target_gets_ready_before_the_compiler_is_imported() -> None:
    modules = modules_of(ROOT, "compile", str(DIGITS), "--target", "cuda", script=PREPARING)
    rest = {*ARRAYS, *PARSER, *FRONT_END, "dfc.driver.api", "dfc.driver.pipeline", "dfc_target_cuda.images"}
    assert sorted((rest - {"dfc.ir", "dfc.syntax"}) & set(modules)) == []
    assert len(ours(modules)) <= 50, ours(modules)
