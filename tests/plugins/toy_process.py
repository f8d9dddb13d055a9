"""A process that has the package of another on its path, and does what `test_toy` asks for, each in a fork of it.

Ops register for good, so that no process of the tests may load them. A line of standard input is what to do, as JSON;
the answer is a line of standard output.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.plugins import toy_kernels, toy_rules
from tests.support.forked import forked_command, in_child


def answer(words: list[str], folder: Path) -> list[object]:
    """A command of `dfc` in a folder: how it ended and what it printed. Without words, what claims are wrong."""
    if words:
        done = forked_command(*words, folder=folder, environment=os.environ, timeout=100)
        return [done.returncode, done.stdout, done.stderr]
    output = folder / "faults.json"
    code = in_child(lambda: output.write_text(json.dumps(toy_rules.faults((*toy_rules.CLAIMS, *toy_kernels.CLAIMS)))))
    return [code, output.read_text() if output.exists() else "", ""]


if __name__ == "__main__":
    for line in sys.stdin:
        asked, place = json.loads(line)
        print(json.dumps(answer(asked, Path(place))), flush=True)
