"""Records that come over a connection: what a supervisor takes, from whom, and how a rank notices its end."""

from __future__ import annotations

import errno
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dfc_runtime.distributed.launch import post
from dfc_runtime.distributed.launch.post import POST_VARIABLE, Line, Post
from dfc_runtime.distributed.launch.record_files import EPOCH_VARIABLE, JOB_VARIABLE
from dfc_runtime.distributed.launch.records import SupervisorLink, read_records


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a supervisor; a rank of it is somewhere else."""
    monkeypatch.setattr(post, "_own_addresses", lambda: ["127.0.0.1"])
    path = tmp_path / "here"
    path.mkdir()
    with Post(path) as open_:
        monkeypatch.setenv(POST_VARIABLE, open_.address)
        monkeypatch.setenv(JOB_VARIABLE, str(tmp_path / "elsewhere"))
        monkeypatch.setenv(EPOCH_VARIABLE, "3")
        yield path


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_rank_of_another_host_is_heard_from_its_first_beat_to_its_end(folder: Path) -> None:
    with SupervisorLink(5, lambda: (7, "it sums")) as told:
        assert told.is_heard
        until(lambda: read_records(folder, 3))
        (beat,) = read_records(folder, 3)
        assert (beat.kind, beat.rank, beat.step, beat.text) == ("beat", 5, 7, "it sums")
        stamp = json.loads((folder / "3-5.beat").read_text())["time"]
        assert 0 <= time.monotonic_ns() - stamp < 60e9
    until(lambda: (folder / "3-5.done").exists())


def test_a_rank_that_fails_says_how(folder: Path) -> None:
    with pytest.raises(ValueError, match="a bug"), SupervisorLink(1):
        raise ValueError("a bug")
    until(lambda: (folder / "3-1.failed").exists())
    failed = next(each for each in read_records(folder, 3) if each.kind == "failed")
    assert (failed.rank, failed.code, failed.text) == (1, 1, "ValueError: a bug")


def test_the_end_of_the_supervisor_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "_own_addresses", lambda: ["127.0.0.1"])
    with Post(tmp_path) as open_:
        monkeypatch.setenv(POST_VARIABLE, open_.address)
        line = Line.to_supervisor()
        assert line is not None and not line.is_over
    until(lambda: line.is_over)
    line.send(1, 0, "beat", {})
    assert Line.to_supervisor() is None, "nobody is there"


def _connection(address: str) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", int(address.split()[0])))
    end.settimeout(60)
    return end


def test_who_does_not_know_the_token_is_not_heard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = post.os.environ[POST_VARIABLE]
    port, token, *_ = address.split()
    end = _connection(address)
    end.sendall(b"0" * len(token) + b'\n{"epoch": 3, "rank": 0, "kind": "done"}\n')
    assert end.recv(10) == b""
    monkeypatch.setenv(POST_VARIABLE, f"{port} {token[::-1]} 127.0.0.1")
    assert Line.to_supervisor() is None
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"[]\n",
        b"\xff\n",
        b'{"epoch": 3, "kind": "beat"}\n',
        b'{"epoch": "3", "rank": 0, "kind": "beat"}\n',
        b'{"epoch": 3, "rank": -1, "kind": "beat"}\n',
        b'{"epoch": 3, "rank": 99999999, "kind": "beat"}\n',
        b'{"epoch": 3, "rank": 0, "kind": "../../beat"}\n',
        b'{"epoch": 3, "rank": 0, "kind": ["beat"]}\n',
        b'{"epoch": 3, "rank": 0, "kind": "beat", "text": "' + b"x" * (1 << 17) + b'"}\n',
        b"[" * 60_000 + b"\n",
    ],
)
def test_what_is_no_record_ends_the_connection_and_leaves_nothing(folder: Path, line: bytes) -> None:
    address = post.os.environ[POST_VARIABLE]
    end = _connection(address)
    end.sendall(f"{address.split()[1]}\n".encode())
    assert end.recv(3) == b"ok\n"
    try:
        end.sendall(line)
        assert end.recv(1) == b""
    except ConnectionError:
        pass  # it was closed before all of the line had been read
    assert list(folder.iterdir()) == []


def test_the_addresses_of_this_host_lead_here(tmp_path: Path) -> None:
    with Post(tmp_path) as open_:
        port, _, name, *addresses = open_.address.split()
        assert name == socket.gethostname()
        for host in addresses:
            socket.create_connection((host, int(port)), 60).close()


def test_silent_strangers_keep_nobody_out(folder: Path) -> None:
    address = post.os.environ[POST_VARIABLE]
    strangers = [_connection(address) for _ in range(post.MOST_STRANGERS + 20)]
    with SupervisorLink(2) as told:
        assert told.is_heard
    until(lambda: (folder / "3-2.done").exists())
    ended = [each for each in strangers if select.select([each], [], [], 0)[0]]
    assert len(ended) >= 20 and ended[0] is strangers[0]
    for each in strangers:
        each.close()


def test_who_says_the_token_too_slowly_is_not_heard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "PROVED_WITHIN", 0.3)
    address = post.os.environ[POST_VARIABLE]
    end = _connection(address)
    with pytest.raises(ConnectionError):
        for char in address.split()[1]:
            end.sendall(char.encode())
            time.sleep(0.1)  # 32 of them take ten times as long as there is


def test_nothing_behind_the_token_is_read_before_it_was_compared(folder: Path) -> None:
    port, token, *_ = post.os.environ[POST_VARIABLE].split()
    end = _connection(port)
    with pytest.raises(ConnectionError):  # what was sent is not read: the connection is reset, perhaps meanwhile
        end.sendall(b"x" * (len(token) + 1) + b"x" * (1 << 20))
        while end.recv(10) or True:
            end.sendall(b"x")


def test_connections_are_taken_at_the_addresses_that_are_told_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post, "_own_addresses", lambda: ["a-name", "127.0.0.2", "127.0.0.3", "192.0.2.77"])
    with Post(tmp_path) as open_:
        port, _, *hosts = open_.address.split()
        assert hosts == ["a-name", "127.0.0.2", "127.0.0.3", "192.0.2.77"]
        for host in ("127.0.0.2", "127.0.0.3"):
            socket.create_connection((host, int(port)), 60).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)), 60)


def test_a_host_without_addresses_has_no_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "_own_addresses", lambda: ["a-name"])
    with Post(tmp_path) as open_:
        monkeypatch.setenv(POST_VARIABLE, open_.address)
        assert open_.address.startswith("0 ")
        assert Line.to_supervisor() is None


def test_every_job_has_a_token_of_its_own(tmp_path: Path) -> None:
    tokens = {Post(tmp_path).address.split()[1] for _ in range(5)}
    assert len(tokens) == 5 and {len(each) for each in tokens} == {32}


def test_a_listener_without_room_for_one_more_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`accept` fails for reasons of the moment, which a stranger can bring about."""
    failures = iter([OSError(errno.EMFILE, "too many open files"), OSError(errno.ECONNABORTED, "gone")])
    accept = socket.socket.accept

    def fails(server: socket.socket) -> tuple[socket.socket, object]:
        for problem in failures:
            raise problem
        return accept(server)

    monkeypatch.setattr(socket.socket, "accept", fails)
    _connection(post.os.environ[POST_VARIABLE]).close()  # for the call that waits already
    assert Line.to_supervisor() is not None
