"""Virtual environments of the peers: made when first needed, kept in `build/bench/environments`.

What is pinned is in one list, the extra `bench` of `pyproject.toml`. An environment is made anew when its pins change.
That a package cannot be had is a reason to say, never an error: the bench goes on without the peer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench" / "environments"
PROCESSOR_WHEELS = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch without libraries for GPUs is; of two equal versions pip takes the one with a local label, `+cpu`."""


class EnvironmentFailure(Exception):
    """An environment could not be made; the text says why."""


def pins(packages: Sequence[str], project: Path = ROOT / "pyproject.toml") -> list[str]:
    """The requirements of packages as the extra `bench` has them."""
    listed = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]["bench"]
    by_name = {re.split(r"[<>=!~\[ ;]", requirement, maxsplit=1)[0]: requirement for requirement in listed}
    return [by_name.get(package, package) for package in packages]


def python_of(name: str, packages: Sequence[str]) -> str:
    """The interpreter of an environment that has the packages. Raises EnvironmentFailure."""
    folder, requirements = FOLDER / name, pins(packages)
    stamp, python = folder / "bench-requirements.txt", folder / "bin" / "python"
    text = "\n".join(requirements) + "\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == text:
        return str(python)
    print(f"making the environment {name}: {', '.join(requirements)}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    more = ["--extra-index-url", PROCESSOR_WHEELS, "--retries", "1"] if "torch" in packages else []
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *more, *requirements])
    stamp.write_text(text, encoding="utf-8")
    return str(python)


def _run(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or run.stderr.splitlines()
        raise EnvironmentFailure((lines or ["the command failed without a word"])[-1][:300])
