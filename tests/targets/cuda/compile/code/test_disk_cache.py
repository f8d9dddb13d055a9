"""What is kept on disk: whole or not at all, bounded, and never a reason to fail."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import dfc
from dfc_target_cuda.code import compile as compiling
from dfc_target_cuda.code import disk_cache
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from dfc_target_cuda.code.disk_cache import DiskCache, digest, file_identity, user_cache
from dfc_target_cuda.code.worker import needed
from tests.targets.cuda.compile.code.test_compile import EXP

NAME, OTHER = digest("one"), digest("other")
VALUE = b"some code " * 50


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_was_put_is_found_by_others(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    DiskCache(folder).put({NAME: VALUE, OTHER: b""})
    found = DiskCache(folder)
    assert found.get(NAME) == VALUE and found.get(OTHER) == b"" and found.get(digest("third")) is None
    assert files(folder) == sorted([NAME, OTHER])


def test_names_tell_parts_apart() -> None:
    names = [digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest()]
    assert len(set(names)) == 5
    assert digest("ä") == digest("ä".encode())


def test_damaged_and_foreign_entries_are_misses(tmp_path: Path) -> None:
    cache, path = DiskCache(tmp_path), tmp_path / NAME
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
    (tmp_path / OTHER).write_bytes(whole)
    assert cache.get(OTHER) is None, "an entry under another name"
    cache.put({NAME: VALUE})
    assert cache.get(NAME) == VALUE


def test_what_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    values = {digest(str(number)): random.Random(number).randbytes(1000) for number in range(20)}
    cache = DiskCache(tmp_path, most_bytes=12_000)
    for age, (name, value) in enumerate(values.items()):
        cache.put({name: value})
        if (tmp_path / name).exists():
            os.utime(tmp_path / name, ns=(age, age))
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
    assert files(tmp_path) == sorted([".dfc-young", NAME])


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    for name in (".bashrc", ".old", "notes", "large"):
        (tmp_path / name).write_bytes(bytes(5000))
        os.utime(tmp_path / name, (1, 1))
    cache = DiskCache(tmp_path, most_bytes=3000)
    for number in range(5):
        cache.put({digest(str(number)): random.Random(number).randbytes(1000)})
    assert {".bashrc", ".old", "notes", "large"} < {*files(tmp_path)}
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
        assert (tmp_path / folder / NAME).exists()
    monkeypatch.setenv(disk_cache.VARIABLE, "0")
    assert not user_cache().is_on and user_cache().get(NAME) is None
    monkeypatch.delenv(disk_cache.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME")
    user_cache().put({NAME: VALUE})
    assert (tmp_path / "home" / ".cache" / "dfc" / NAME).exists()


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


# --- what is compiled

PROGRAM = """
import sys
from dfc_target_cuda.code import assemble, compile, compiler_process, disk_cache
from tests.targets.cuda.compile.code.test_compile import EXP, SCALE

def refuse(*_):
    raise SystemExit("compiled again")

if sys.argv[1] == "kept":
    compiler_process.CompilerProcess = assemble._run = refuse
ptx = compile.ptx_module([EXP, SCALE], "compute_80")
made = assemble.assemble(ptx, "sm_90")
print(disk_cache.digest(ptx, made.code, repr(made.reports)))
"""


def compiled(folder: str, how: str = "") -> str:
    environment = {**os.environ, disk_cache.VARIABLE: folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_that_decides_on_code_decides_on_what_is_kept() -> None:
    """What compiling loads is part of what tells entries apart, but for what only carries or simulates."""
    program = """
import sys
from dfc_target_cuda.code import compile, device_functions, link, worker
device_functions.names()
print(*sorted(n for n in sys.modules if n.startswith(('dfc.', 'dfc_target_cuda.'))))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    package, compiler = Path(compiling.__file__).parents[1], Path(dfc.__file__).parent
    own = _matching(package, compiling.SOURCES)
    loaded = {_file(package, name) for name in told if name.startswith("dfc_target_cuda.")}
    carriers = {
        "code.py",
        "kernels.py",
        "compiler_process.py",
        "disk_cache.py",
        "forks.py",
        "fragments.py",
        "kernel_text.py",
    }
    assert {path.name for path in loaded - own} == carriers
    assert own - loaded == set(), "a file that does not matter"
    shared = {_file(compiler, name) for name in told if name.startswith("dfc.")}
    others = {str(path.relative_to(compiler)) for path in shared - _matching(compiler, compiling.COMPILER_SOURCES)}
    packages = {"deferred.py", "ir.py", "kernels.py", "lower.py", "lower/legalise.py", "version.py"}
    assert others == packages, "and no code"


def _matching(folder: Path, patterns: Sequence[str]) -> set[Path]:
    return {path for pattern in patterns for path in folder.glob(pattern)}


def _file(folder: Path, module: str) -> Path:
    return folder / f"{module.split('.', 1)[1].replace('.', '/')}.py"


CACHED = """
import sys
from dfc.ir.dims import dim
from dfc.ir.dtypes import F64
from dfc_target_cuda.code import compile
from dfc_target_cuda.kernels.kernel_text import Geometry, KernelText
source = "def k0(a, error):\\n    a[0] = f64_exp(a[0])\\n"
compile.ptx_module([KernelText("k0", source, (F64,), 0, Geometry(dim(1), 1, 256, 1))], "compute_80")
print(*sorted({name.split(".")[0] for name in sys.modules} & {"numba", "numba_cuda", "llvmlite", "cuda"}))
"""


def test_what_was_compiled_before_needs_neither_numba_nor_a_library(tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda")
    environment = {**os.environ, disk_cache.VARIABLE: str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CACHED]
    told = [
        subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout for _ in range(2)
    ]
    assert told == ["\n", "\n"], "which a process of its own has, and only the first time"


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_code_is_the_same_with_and_without_and_is_made_once(tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda")
    folder = tmp_path / "cache"
    code = compiled(str(folder))
    assert code == compiled("0") == compiled(str(folder), "kept")
    assert len(files(folder)) == 3 + len(needed(EXP.source)), "texts, machine code, functions of the prelude"
    for name in files(folder):
        (folder / name).write_bytes(b"damaged")
    assert compiled(str(folder)) == code == compiled(str(folder), "kept")


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_machine_code_of_another_assembler_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfc_target_cuda.code import assemble as assembling

    path = find_ptxas()
    assert path is not None
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "cache"))
    ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k0()\n{\nret;\n}\n"
    for identity, count in (("one build", 1), ("another build", 2), ("one build", 2)):
        monkeypatch.setattr(assembling, "file_identity", lambda _, known=identity: known)
        assembling._kept.cache_clear()  # pyright: ignore[reportPrivateUsage]
        assert assemble(ptx, "sm_90") is not None
        assert len(files(tmp_path / "cache")) == count
