"""What the page on deployment says about Python runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.clusters import cluster_bundle
from tests.support.corpus import ROOT
from tests.support.documents import code_blocks
from tests.support.mpi import run_ranks

PAGE = ROOT / "docs" / "DEPLOYMENT.md"
DEPLOYMENT = """
job ps tasks 1
job worker tasks 2
place "seen" on ps
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""


def test_the_program_of_the_page_runs_on_ranks(tmp_path: Path) -> None:
    blocks = {block.language: block.text for block in reversed(code_blocks(PAGE))}
    path = tmp_path / "words.bundle"
    path.write_bytes(cluster_bundle(blocks["dfg"], DEPLOYMENT))
    first, *others = run_ranks(3, blocks["python"].replace("words.bundle", str(path))).out
    assert re.fullmatch(r"0\.\d{4} \(1000, 16\)\n", first)
    assert others == ["", ""]
