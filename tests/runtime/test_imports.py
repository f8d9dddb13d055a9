from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dfc_runtime

ROOT = Path(dfc_runtime.__file__).parents[2]


def modules_after(statements: str) -> set[str]:
    """The top-level packages that a fresh interpreter has imported after these statements."""
    script = f"{statements}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    path = os.pathsep.join(str(ROOT / part) for part in (".", "runtime", "targets"))
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


COMPILER = {"lark", "llvmlite", "elftools", "click", "rich"}


def test_the_run_side_needs_no_compiler() -> None:
    found = modules_after("import dfc_runtime; dfc_runtime.load; dfc_runtime.Module; import dfc_driver_cpu.driver")
    assert not found & {"dfc", *COMPILER}


def test_importing_the_packages_imports_nothing_else() -> None:
    assert not modules_after("import dfc, dfc_runtime") & {"numpy", "inspect", "ml_dtypes", *COMPILER}


def test_every_public_name_is_there() -> None:
    modules_after("import dfc_runtime; [getattr(dfc_runtime, name) for name in dfc_runtime.__all__]")
    modules_after("import dfc; [getattr(dfc, name) for name in dfc.__all__ if name != 'compile']")
    for name in dfc_runtime.__all__:
        assert getattr(dfc_runtime, name).__module__.startswith("dfc_runtime.")
