"""As many kills as one likes: `python -m tests.mpi.kills 40`, over jobs of 1, 2 and 3 ranks, each of them checked
against a run that nobody disturbed. What the tests do with twelve; for a release, and for doubts."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.mpi import test_run_command as runs


def main(kills: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = runs.prepared(Path(name))
        done = job = 0
        while done < kills:
            ranks = job % 3 + 1
            scratch = folder / f"job-{job}"
            scratch.mkdir()
            steps = {1: 20_000, 2: 6_000, 3: 800}[ranks]
            whole = runs.train(folder, scratch, 1, "whole", steps=steps)
            code, killed, err = runs.killed_run(folder, scratch, ranks, min(5, kills - done), steps)
            same = code == 0 and runs.digest(scratch / "killed") == whole
            print(
                f"{ranks} ranks, {killed} kills: {'the same bits' if same else f'FAILED with {code}: {err}'}",
                flush=True,
            )
            if not same:
                return 1
            done += killed
            job += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
