"""Waiting until somebody has read what was written."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dfc.cli.ranks.draining import unread, until_read


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_nobody_reads_is_waited_for_up_to_a_limit(pipe: tuple[int, int]) -> None:
    _, out = pipe
    os.write(out, b"error: there is no file\n")
    assert unread(out) == 24
    assert until_read([out], 0.05) is False


def test_it_goes_on_when_all_is_read(pipe: tuple[int, int]) -> None:
    source, out = pipe
    os.write(out, b"error")
    reader = threading.Timer(0.05, lambda: os.read(source, 100))
    reader.start()
    assert until_read([out], 60) is True
    reader.join()
    assert unread(out) == 0


def test_files_and_closed_descriptors_need_no_wait(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        file.write(b"text")
        file.flush()
        assert until_read([file.fileno(), 9999], 0.0) is True
