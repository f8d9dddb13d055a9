"""A second opinion on types: pyright in strict mode, beside pyrefly, which every change must pass.

Ends with 1 if pyright finds a mistake, or is not installed: `make gate` installs it, with the extra `gate`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

CHECKER = "basedpyright"
_NODE_OPTIONS = "--max-semi-space-size=128"
"""Node.js looks through all that is new each 16 MB by default: a fourteenth of its processor time."""


def main() -> int:
    if importlib.util.find_spec(CHECKER) is None:
        print(f"{CHECKER} is not installed: python -m pip install --editable '.[gate]'", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", CHECKER, "--level", "error"]
    return subprocess.run(command, env={**os.environ, "NODE_OPTIONS": _NODE_OPTIONS}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
