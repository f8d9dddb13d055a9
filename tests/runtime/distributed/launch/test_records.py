"""What ranks tell their supervisor: who of them it cannot watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc_runtime.distributed.launch import record_files, records
from dfc_runtime.distributed.launch.records import Seen, SupervisorLink, unseen


def test_ranks_that_do_not_see_the_folder_are_named_with_their_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(record_files.JOB_VARIABLE, "/tmp/dfc-job-x")
    here = Seen("a", True)
    assert unseen([here, Seen("b", True)]) == ""
    rest = (
        "cannot be watched: there is no folder /tmp/dfc-job-x there, and no way to the supervisor\n"
        "  set TMPDIR to a folder that all hosts share, or let them reach the host that `dfc run` is on"
    )
    assert unseen([here, Seen("b", False)]) == f"rank 1 on b {rest}"
    assert unseen([Seen("b", False), here, Seen("c", False), Seen("b", False)]) == f"ranks 0, 2, 3 on b, c {rest}"
    assert unseen([Seen("b", False)] * 20).startswith("ranks 0, 1, 2, 3, 4, 5, 6, 7, ... on b cannot")


def test_a_rank_sees_the_folder_of_a_supervisor_that_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(record_files.JOB_VARIABLE, raising=False)
    assert SupervisorLink(0).is_heard, "nobody watches"
    monkeypatch.setenv(record_files.JOB_VARIABLE, str(tmp_path))
    monkeypatch.setenv(record_files.EPOCH_VARIABLE, "1")
    assert not SupervisorLink(0).is_heard
    with records.watch_over(tmp_path):
        assert SupervisorLink(0).is_heard
