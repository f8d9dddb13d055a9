"""Runs pieces of Python from documents in one process of their own and says how each of them ended.

Called as a program: reads a JSON list of [folder, file] from standard input, runs each file in its folder, and writes
a JSON list with an empty text for a piece that came to its end, the code of the error for one that ended with an error
of dfc, and type and message for any other end.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def endings(pieces: Sequence[tuple[Path, Path]]) -> list[str]:
    """How each piece ends; all run in one new process."""
    request = json.dumps([[str(folder), str(file)] for folder, file in pieces])
    paths = os.pathsep.join(str(ROOT / each) for each in (".", "runtime", "targets"))
    done = subprocess.run(
        [sys.executable, __file__],
        input=request,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout)
    return result


def _ending(folder: str, file: str) -> str:
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(file, run_name="__main__")
    except BaseException as problem:
        code = getattr(problem, "code", None)
        return code if isinstance(code, str) and code else f"{type(problem).__name__}: {problem}"
    return ""


if __name__ == "__main__":
    json.dump([_ending(folder, file) for folder, file in json.load(sys.stdin)], sys.stdout)
