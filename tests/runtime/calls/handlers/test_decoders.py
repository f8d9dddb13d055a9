"""Processes that decode images: the same pixels and damages as without them, and what becomes of those that end."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.calls.handlers import decoders
from dfc_runtime.calls.handlers.decoders import Decoders
from dfc_runtime.errors import FeedError, LimitError
from dfc_runtime.records.images.decoding import DamagedImage, decode
from tests.runtime.calls.handlers.test_image_requests import GOOD, HEIGHT, IMAGES, WIDTH, flagged
from tests.support.image_files import jpeg, smooth
from tests.support.pipelines import drained, eventually

PICTURE = jpeg(smooth(40, 30))


def is_there(pid: int) -> bool:
    """Whether a process is, and is no more than a name that nobody has taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_native_code_has_images_decoded_without_the_run_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first ones of the copies, which start the processes, for those whose process was killed, which is
    started anew, and for images that are damaged."""
    asked: list[tuple[Decoders, bytes]] = []
    own = Decoders.decode

    def noted(self: Decoders, data: bytes, height: int, width: int) -> np.ndarray:
        asked.append((self, data))
        return own(self, data, height, width)

    monkeypatch.setattr(Decoders, "decode", noted)
    monkeypatch.setenv("DFC_DECODERS", "1")
    model = flagged(tmp_path, 3)
    got = [model.next()]
    before = asked[0][0].processes
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    got += drained(model.next)
    assert [each.label for each in got] == [0, 1, 3, 4] * 2
    np.testing.assert_array_equal([each.image for each in got], [decode(data, HEIGHT, WIDTH) for data in GOOD] * 2)
    damages = [data for _, data in asked if data in (IMAGES[2], IMAGES[5])]
    assert len(damages) == model.damaged() == 4
    assert 1 <= len(asked) - len(damages) <= 6
    after = asked[0][0].processes
    assert len(before) == len(after) == 2 and not set(after) & set(before)
    model.close()
    assert not any(map(is_there, after))


def test_an_image_that_ends_its_decoder_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = "import os, signal, sys; os.write(int(sys.argv[1]), b'1'); os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(decoders, "WORKER", ("-c", ends))
    own = Decoders(0)
    with pytest.raises(DamagedImage, match=r"it ended two processes that were to decode it \(signal 11\)"):
        own.decode(PICTURE, 4, 4)
    monkeypatch.undo()
    np.testing.assert_array_equal(own.decode(PICTURE, 4, 4), decode(PICTURE, 4, 4))
    with pytest.raises(DamagedImage, match="neither a JPEG nor a PNG"):
        own.decode(b"", 4, 4)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(decoders, "received", _interrupted)
        own.decode(jpeg(smooth(30, 40)), 4, 4)
    np.testing.assert_array_equal(own.decode(PICTURE, 4, 4), decode(PICTURE, 4, 4))
    own.close()


def _interrupted(connection: socket.socket, size: int) -> bytearray:
    raise KeyboardInterrupt


def test_processes_that_cannot_decode_are_no_damaged_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "WORKER", ("-S", "-c", "raise SystemExit(3)"))
    with pytest.raises(LimitError, match=r"none can decode \(exit status 3\)\n  set DFC_DECODERS to a smaller number"):
        Decoders(0).decode(PICTURE, 4, 4)


def test_programs_that_are_killed_or_closed_leave_none_behind_and_forked_ones_decode_themselves() -> None:
    own = Decoders(1)
    expected = own.decode(PICTURE, 4, 4)
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        is_equal = np.array_equal(own.decode(PICTURE, 4, 4), expected) and not own._table.count
        other = Decoders(1)
        other.decode(PICTURE, 4, 4)
        os.write(here, np.array([is_equal, *other.processes]).tobytes())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    is_equal, *orphans = np.frombuffer(os.read(there, 64), np.int64).tolist()
    assert is_equal and len(orphans) == 2
    eventually(lambda: not any(map(is_there, orphans)))
    assert all(map(is_there, own.processes))
    os.kill(own.processes[-1], signal.SIGSTOP)
    waits = threading.Thread(target=own.decode, args=(PICTURE, 4, 4))
    waits.start()
    eventually(own._lock.locked)
    own.close()
    waits.join()
    np.testing.assert_array_equal(own.decode(PICTURE, 4, 4), expected)
    assert not own.processes


@pytest.mark.parametrize("text", ["two", "-1", "1025"])
def test_a_number_of_decoders_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("DFC_DECODERS", text)
    with pytest.raises(FeedError, match="DFC_DECODERS is a number of processes from 0 to 1024"):
        flagged(tmp_path)
