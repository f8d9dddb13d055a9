"""Runs pieces of Python from documents in a process of their own and says how each of them ended: with an empty text
for a piece that came to its end, the code of the error for one that ended with an error of dfc, and type and message
for any other end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.forked import in_child


def endings(pieces: Sequence[tuple[Path, Path]]) -> list[str]:
    """How each piece (a folder to run it in, and its file) ends; all run in one fork of this process."""
    with tempfile.TemporaryFile("w+") as answers:

        def work() -> None:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                json.dump([_ending(folder, file) for folder, file in pieces], answers)
            answers.flush()

        status = in_child(work)
        assert status == 0, f"the process ended with {status}"
        answers.seek(0)
        result: list[str] = json.load(answers)
    return result


def _ending(folder: Path, file: Path) -> str:
    os.chdir(folder)
    try:
        runpy.run_path(str(file), run_name="__main__")
    except BaseException as problem:
        code = getattr(problem, "code", None)
        return code if isinstance(code, str) and code else f"{type(problem).__name__}: {problem}"
    return ""
