"""Virtual environments that hold what a test puts into them and nothing else, made and filled without an index.

Libraries are links to those of the environment that runs the tests. Distributions of this project are installed by its
pip, which then finds the links, and fails where a distribution requires anything else.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
RUN_SIDE = {
    "dfc-runtime": ROOT / "runtime",
    "dfc-driver-cpu": ROOT / "targets" / "cpu" / "run",
    "dfc-driver-cuda": ROOT / "targets" / "cuda" / "run",
}
"""Distributions of the run side, and their folders."""


class Environment:
    """A virtual environment in `folder`, without even pip; `bin/pip` there is a pip from outside."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        self.packages = next(folder.glob("lib/python*/site-packages"))
        pip, runner = self.bin / "pip", distribution("pip").locate_file("pip/__pip-runner__.py")
        pip.write_text(f'#!/bin/sh\nexec {self.bin / "python"} {runner} "$@"\n')  # what `pip --python` starts
        pip.chmod(0o755)

    def link(self, *names: str) -> None:
        """Libraries, and what they require."""
        for name in names:
            library = distribution(name)
            tops = {file.parts[0] for file in library.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if not (self.packages / top).exists():
                    (self.packages / top).symlink_to(Path(str(library.locate_file(top))))
            for required in map(Requirement, library.requires or ()):
                if required.marker is None or required.marker.evaluate({"extra": ""}):
                    self.link(required.name)

    def variables(self) -> dict[str, str]:
        """For processes that use it: nothing is taken from an index, or from where the tests look for modules."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return kept | {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads options that begin with `no` the other way round
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "1",
            "PIP_COMPILE": "0",  # Python does so for what is imported, a small part
        }

    def run(self, *command: object, folder: Path) -> str:
        """What a command of it prints; one that fails fails the test."""
        words = [str(self.bin / str(command[0])), *map(str, command[1:])]
        return self._output(words, folder)

    def shell(self, script: str, folder: Path) -> str:
        """The same for lines of a shell, which find its commands first."""
        return self._output(["sh", "-e", "-c", script], folder)

    def _output(self, words: list[str], folder: Path) -> str:
        done = subprocess.run(words, cwd=folder, env=self.variables(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def project_wheels() -> dict[str, Path]:
    """The wheel of each distribution, built once for all processes of a run of the tests."""
    folder = Path(os.environ["DFC_CACHE"]) / "wheels"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return {name: _built(project, folder / name) for name, project in {"dfc": ROOT, **RUN_SIDE}.items()}


def _built(project: Path, into: Path) -> Path:
    into.mkdir(exist_ok=True)
    return next(into.glob("*.whl"), None) or build_wheel(project, into)


def build_wheel(folder: Path, into: Path) -> Path:
    """The wheel of the project in that folder, by the build backend that it names."""
    script = (
        "import sys, tomllib, importlib\n"
        "system = tomllib.load(open('pyproject.toml', 'rb'))['build-system']\n"
        "sys.path[:0] = system.get('backend-path', [])\n"
        "print(importlib.import_module(system['build-backend']).build_wheel(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", script, str(into)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into / done.stdout.splitlines()[-1]
