"""What is kept on disk: whole or not at all, bounded, and never a reason to fail."""

from __future__ import annotations

import errno
import os
import random
import sys
import threading
import time
from pathlib import Path

import pytest

from dfc.bundle import disk_cache
from dfc.bundle.disk_cache import DiskCache, digest, file_identity, user_cache

NAME, OTHER = digest("one"), digest("other")
VALUE = b"some code " * 50


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_was_put_is_found_by_others(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    DiskCache(folder).put({NAME: VALUE, OTHER: b""})
    found = DiskCache(folder)
    assert found.get(NAME) == VALUE and found.get(OTHER) == b"" and found.get(digest("third")) is None
    assert files(folder) == sorted([f"dfc-{NAME}", f"dfc-{OTHER}"])


def test_names_tell_parts_apart() -> None:
    names = [digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest()]
    assert len(set(names)) == 5
    assert digest("ä") == digest("ä".encode())


def test_damaged_and_foreign_entries_are_misses(tmp_path: Path) -> None:
    cache, path = DiskCache(tmp_path), tmp_path / f"dfc-{NAME}"
    cache.put({NAME: VALUE})
    whole = path.read_bytes()
    source = random.Random(1)
    damaged = [whole[:length] for length in range(0, len(whole), 7)]
    for _ in range(100):
        changed = bytearray(whole)
        changed[source.randrange(len(whole))] ^= 1 << source.randrange(8)
        damaged.append(bytes(changed))
    for data in [*damaged, whole + b"x", b"dfc cache 2\n" + whole[12:], VALUE]:
        path.write_bytes(data)
        assert cache.get(NAME) is None
    (tmp_path / f"dfc-{OTHER}").write_bytes(whole)
    assert cache.get(OTHER) is None, "an entry under another name"
    cache.put({NAME: VALUE})
    assert cache.get(NAME) == VALUE


def test_a_folder_that_others_can_write_has_no_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    cache = DiskCache(folder)
    cache.put({NAME: VALUE})
    for mode in (0o722, 0o720, 0o702, 0o1777):
        folder.chmod(mode)
        assert cache.get(NAME) is None, oct(mode)
    folder.chmod(0o700)
    assert cache.get(NAME) == VALUE
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert (cache.get(NAME) is None) == (owner != 0), "the system's own is trusted"


def test_links_and_pipes_are_no_entries(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put({NAME: VALUE})
    entry = tmp_path / "cache" / f"dfc-{NAME}"
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert cache.get(NAME) is None
    os.mkfifo(tmp_path / "cache" / f"dfc-{OTHER}")
    assert cache.get(OTHER) is None


def test_one_large_entry_does_not_drive_out_all_others(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, most_bytes=8000)
    cache.put({NAME: VALUE})
    cache.put({OTHER: random.Random(1).randbytes(9000)})
    assert cache.get(NAME) == VALUE and cache.get(OTHER) is None


def test_names_may_depend_on_paths_of_any_bytes() -> None:
    assert digest(os.fsdecode(b"/opt/\xff/lib.so")) == digest(b"/opt/\xff/lib.so")


def test_room_is_made_once_in_a_while_where_entries_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    monkeypatch.setattr(DiskCache, "_trim", lambda _, folder: looks.append(folder))
    for number in range(200):
        DiskCache(tmp_path, most_bytes=64_000).put({digest(str(number)): random.Random(number).randbytes(300)})
    size = sum((tmp_path / one).stat().st_size for one in files(tmp_path))
    assert size // 1_400 <= len(looks) <= size // 1_000 + 1, "once, and again after each 64th of the bound"


def test_what_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    values = {digest(str(number)): random.Random(number).randbytes(1000) for number in range(20)}
    cache = DiskCache(tmp_path, most_bytes=12_000)
    for age, (name, value) in enumerate(values.items()):
        cache.put({name: value})
        if (tmp_path / f"dfc-{name}").exists():
            os.utime(tmp_path / f"dfc-{name}", ns=(age, age))
        assert sum((tmp_path / one).stat().st_size for one in files(tmp_path)) <= 12_000
        if age == 8:
            assert cache.get(next(iter(values))) == next(iter(values.values())), "used again: now the youngest"
    kept = [number for number, name in enumerate(values) if cache.get(name) is not None]
    assert 0 in kept and kept[1:] == list(range(20 - len(kept) + 1, 20)) and len(kept) >= 8


def test_what_was_left_unfinished_is_removed_later(tmp_path: Path) -> None:
    for name, age in ((".dfc-young", 60), (".dfc-old", 7200)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    DiskCache(tmp_path).put({NAME: VALUE})
    assert files(tmp_path) == sorted([".dfc-young", f"dfc-{NAME}"])


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    for name in (".bashrc", ".old", "notes", "0" * 64):
        (tmp_path / name).write_bytes(bytes(5000))
        os.utime(tmp_path / name, (1, 1))
    cache = DiskCache(tmp_path, most_bytes=5000)
    for number in range(5):
        cache.put({digest(str(number)): random.Random(number).randbytes(1000)})
    assert {".bashrc", ".old", "notes", "0" * 64} < {*files(tmp_path)}
    assert cache.get(digest("4")) is not None


def test_a_folder_that_cannot_be_written_is_as_if_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = DiskCache(folder)
        cache.put({NAME: VALUE})
        assert cache.get(NAME) is None

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache = DiskCache(tmp_path / "full")
    cache.put({NAME: VALUE})
    assert cache.get(NAME) is None and files(tmp_path / "full") == []


def test_many_at_once_see_whole_entries(tmp_path: Path) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        cache = DiskCache(tmp_path, most_bytes=9000)
        for step in range(30):
            seed = (number + step) % 5
            name, value = digest(str(seed)), random.Random(seed).randbytes(2000)
            found = cache.get(name)
            if found not in (None, value):
                wrong.append(found)
            cache.put({name: value})

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert not any(name.startswith(".") for name in files(tmp_path))


def test_the_environment_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for stated, folder in (("", "xdg/dfc"), (str(tmp_path / "own"), "own"), ("~/kept", "home/kept")):
        monkeypatch.setenv(disk_cache.VARIABLE, stated)
        user_cache().put({NAME: VALUE})
        assert (tmp_path / folder / f"dfc-{NAME}").exists()
    monkeypatch.setenv(disk_cache.VARIABLE, "0")
    assert not user_cache().is_on and user_cache().get(NAME) is None
    monkeypatch.delenv(disk_cache.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME")
    user_cache().put({NAME: VALUE})
    assert (tmp_path / "home" / ".cache" / "dfc" / f"dfc-{NAME}").exists()


@pytest.mark.parametrize("stated", ["", "~nobody_of_this_name/cache"])
def test_without_a_home_nothing_is_kept(stated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user that the system does not know
    monkeypatch.setenv(disk_cache.VARIABLE, stated)
    user_cache().put({NAME: VALUE})
    assert not user_cache().is_on and files(tmp_path) == []


def test_builds_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    assert file_identity(str(path)) == ""
    path.write_text("one")
    first = file_identity(str(path))
    os.utime(path, ns=(5, 5))
    assert len({first, file_identity(str(path)), ""}) == 3
