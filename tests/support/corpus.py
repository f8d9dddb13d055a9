"""The programs that come with dfc: samples and library."""

from __future__ import annotations

from pathlib import Path

from dfc.diagnostics.source import SourceFile

ROOT = Path(__file__).resolve().parents[2]
CORPUS = [*sorted((ROOT / "samples" / "language").glob("*.dfg")), *sorted((ROOT / "dfc" / "std").glob("*.dfg"))]
DEPLOYMENTS = sorted((ROOT / "samples" / "language").glob("*.deploy"))


def load(path: Path) -> SourceFile:
    return SourceFile(path.name, path.read_text())
