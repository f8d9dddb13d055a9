"""The tools that bundles for GPUs name are those that made their code."""

from __future__ import annotations

import subprocess
from importlib import metadata

import pytest

from dfc_target_cuda.code import compilers as module
from dfc_target_cuda.code.assemble import find_ptxas
from dfc_target_cuda.code.compilers import compilers


def test_each_tool_has_the_version_that_it_states() -> None:
    found = compilers()
    assert found["libNVVM"] == metadata.version("nvidia-nvvm")
    path = find_ptxas()
    stated = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout if path else ""
    assert (f"V{found['ptxas']}\n" in stated) if path else "ptxas" not in found


def test_a_library_of_the_system_states_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIBRARIES", {"libNVVM": "no-such-distribution"})
    assert compilers.__wrapped__()["libNVVM"] == "unknown"
