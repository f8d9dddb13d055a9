"""The command line of a program of the gate: how much is tried, and the seed."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from typing import TypeVar

Amount = TypeVar("Amount", int, float)


def run(main: Callable[[Amount, int], int], description: str | None, name: str, default: Amount) -> None:
    """Calls `main` with the amount of this name and the seed, a new one if none is given, and exits with its status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(name, type=type(default), nargs="?", default=default)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    arguments = parser.parse_args()
    sys.exit(main(getattr(arguments, name), arguments.seed))
