"""`dfc bench null` on ranks that it starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.rank_launcher import forked_job

pytestmark = [pytest.mark.timeout(120)]


def test_steps_and_messages_of_each_kind_are_measured(tmp_path: Path) -> None:
    words = ("bench", "null", "--dense=1", "--table=1", "--steps=2", "--workers=1", "--json")
    done = forked_job(*words, folder=tmp_path, environment={**os.environ, "TMPDIR": str(tmp_path)}, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    steps = json.loads(done.stdout)["steps"]
    assert [(each["step"], each["bytes_to_a_worker"]) for each in steps] == [
        ("scalar", 4),
        ("dense", 1_000_000),
        ("sparse", 32_768),
        ("sparse_16", 32_768),
    ]
    assert steps[3]["parameter_bytes"] == 16 * steps[2]["parameter_bytes"]
    for each in steps:
        assert (len(each["seconds"]), len(each["seconds_of_messages"])) == (2, 2)
        assert min(each["seconds"] + each["seconds_of_messages"]) > 0
