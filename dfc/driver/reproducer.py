"""Keeps the graph that a pass failed on as a file that can be compiled again."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from dfc.ir.graph import Graph


def keep(graph: Graph, phase: str, show: Callable[[Graph], str], folder: str | None = None) -> str:
    """Writes the graph into `folder` (by default the folder for temporary files); "" if that fails.

    The name depends on the content alone, so that one bug leaves one file however often it is met.
    """
    try:
        text = f"# the graph before {phase}\n{show(graph)}"
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
        path = Path(folder or tempfile.gettempdir()) / f"dfc-{phase}-{digest}.dfg"
        path.write_text(text, encoding="utf-8")
    except Exception:
        return ""  # a failure while reporting must not hide the failure that is reported
    return str(path)
