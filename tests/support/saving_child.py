"""A process that saves checkpoints, to be killed or hindered: `python saving_child.py FOLDER COUNT`.

Prints the number of each checkpoint that it was told is safe, or `failed CODE`, one a line. Ends with 0 unless
something happens that the run side has no name for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.errors import DfcError


def main(folder: Path, count: int) -> None:
    for number in range(1, count + 1):
        state = [Saved("v", "i64", (3,), np.full(3, number)), Saved("w", "f32", (40,), np.full(40, number, "f4"))]
        try:
            line = store.publish(folder, About(number, "p"), state, numbered=True).name.removeprefix("step-")
        except DfcError as problem:
            line = f"failed {problem.code}"
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
