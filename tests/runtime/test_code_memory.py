"""Executable memory: given back when a program is closed or gone, and found where systems forbid the usual way."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import dfc
from dfc_runtime import code_memory
from dfc_runtime.code_memory import MappedCode
from dfc_runtime.errors import BundleError, UnsupportedError
from dfc_runtime.processor_features import asked_bits

ROOT = Path(__file__).parents[2]
PROGRAM = "dfg 1\n\nvar steps: i64 = 0\nentry step(by: i64) -> i64 {\n  steps += by\n  return steps\n}\n"
RETURN_42 = bytes.fromhex("b82a000000c3") if platform.machine() == "x86_64" else bytes.fromhex("40058052c0035fd6")


def executable_mappings() -> int:
    """How many mappings of executable memory there are that are no library's. Those that can be written as well are
    ctypes': it takes a page more now and then, whenever all callbacks of the process have filled those it has."""
    rows = [row.split(maxsplit=5) for row in Path("/proc/self/maps").read_text().splitlines()]
    return sum(row[1][1:3] == "-x" and (len(row) < 6 or "memfd:dfc" in row[5]) for row in rows)


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def test_closed_modules_give_their_code_back(bundle: bytes) -> None:
    dfc.loads(bundle, threads=2).close()  # the first one may stay, for the threads of the process
    gc.collect()
    before = executable_mappings()
    kept = []
    for _ in range(200):
        module = dfc.loads(bundle, threads=2)
        assert module.step(3) == 3
        module.close()
        kept.append(module)  # closing gives back, also where the module is still held
    assert executable_mappings() == before


def test_modules_that_are_gone_give_their_code_back(bundle: bytes) -> None:
    dfc.loads(bundle, threads=2).close()
    gc.collect()
    before = executable_mappings()
    for _ in range(200):
        dfc.loads(bundle, threads=2).step(1)
        gc.collect(0)
    gc.collect()
    assert executable_mappings() == before


def test_a_function_that_is_held_keeps_the_code(bundle: bytes) -> None:
    step = dfc.loads(bundle, threads=1).step
    gc.collect()
    assert step(2) == 2


def test_loads_that_fail_give_the_code_back(bundle: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfc_driver_cpu import driver

    def damaged(*_: object) -> int:
        raise ValueError("the notes of the code image are damaged")

    monkeypatch.setattr(driver, "Undo", damaged)
    gc.collect()
    before = executable_mappings()
    for _ in range(20):
        with pytest.raises(BundleError):
            dfc.loads(bundle)
    gc.collect()
    assert executable_mappings() == before


@pytest.mark.parametrize("way", range(2))
def test_each_way_gives_memory_that_runs_and_cannot_be_written(way: int, monkeypatch: pytest.MonkeyPatch) -> None:
    only = list(code_memory.ways())[way]
    monkeypatch.setattr(code_memory, "ways", lambda: [only])
    code = MappedCode(RETURN_42)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(code.base)() == 42
    (line,) = [r for r in Path("/proc/self/maps").read_text().splitlines() if r.startswith(f"{code.base:x}-")]
    assert line.split()[1].startswith("r-xp")
    code.close()
    assert f"{code.base:x}-" not in Path("/proc/self/maps").read_text()


def test_a_policy_that_forbids_all_ways_is_named_and_not_the_bundle(
    bundle: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_: bytes) -> int:
        raise PermissionError(13, "mprotect: Permission denied")

    monkeypatch.setattr(code_memory, "ways", lambda: [forbidden])
    with pytest.raises(UnsupportedError, match=r"may not make memory executable.*mprotect: Permission denied") as told:
        dfc.loads(bundle)
    assert told.value.code == "E1006"


FILTER = """
import ctypes, struct, sys
MMAP, MPROTECT, PKEY_MPROTECT, LOAD, JUMP, SET, RETURN = 9, 10, 329, 0x20, 0x15, 0x45, 0x06
ALLOW, DENY = 0x7FFF0000, 0x00050001
rows = [
    (LOAD, 0, 0, 0),
    (JUMP, 0, 3, MMAP), (LOAD, 0, 0, 32), (SET, 0, 6, 4), (SET, 4, 5, 2),
    (JUMP, 1, 0, MPROTECT), (JUMP, 0, 3, PKEY_MPROTECT), (LOAD, 0, 0, 32), (SET, 0, 1, 4),
    (RETURN, 0, 0, DENY),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("rows", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(rows), ctypes.addressof(code))), 0, 0) == 0
import mmap
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
    sys.exit("the filter does nothing")
except PermissionError:
    pass
"""
DENY_WRITE_EXECUTE = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    print("6")
    sys.exit(0)  # a kernel before 6.3
"""
USE = """
import dfc_runtime
module = dfc_runtime.load(sys.argv[1], threads=2, summaries=lambda summary: None)
module.step(2)
print(module.step(4))
module.close()
"""


def run_on(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "runtime", "targets"))
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is written for x86-64")
@pytest.mark.parametrize("policy", [FILTER, DENY_WRITE_EXECUTE], ids=["seccomp", "prctl"])
def test_programs_run_where_memory_may_not_be_made_executable(policy: str, bundle: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.bundle"
    file.write_bytes(bundle)
    done = run_on(policy + USE, file)
    assert (done.stdout, done.stderr) == ("6\n", "")


def test_programs_run_without_proc_cpuinfo(bundle: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.bundle"
    file.write_bytes(bundle)
    hidden = f"import sys\nfrom dfc_runtime import processor\nprocessor.CPU_INFO = {str(tmp_path / 'none')!r}\n"
    done = run_on(hidden + USE, file)
    assert (done.stdout, done.stderr) == ("6\n", "")


def test_programs_run_without_a_home_that_can_be_written(bundle: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.bundle"
    file.write_bytes(bundle)
    file.chmod(0o444)
    hidden = "import sys, os\nos.environ.update(HOME='/proc/none', XDG_CACHE_HOME='/proc/none', TMPDIR='/proc/none')\n"
    done = run_on(hidden + USE, file)
    assert (done.stdout, done.stderr) == ("6\n", "")


def folders_without_execution() -> list[str]:
    rows = [row.split() for row in Path("/proc/mounts").read_text().splitlines()]
    return [row[1] for row in rows if "noexec" in row[3].split(",") and os.access(row[1], os.W_OK)]


def test_bundles_may_lie_where_nothing_may_be_executed(bundle: bytes) -> None:
    for folder in folders_without_execution():
        file = Path(folder) / f"dfc-{os.getpid()}.bundle"
        try:
            file.write_bytes(bundle)
        except OSError:
            continue  # the system's own
        try:
            done = run_on("import sys\n" + USE, file)
        finally:
            file.unlink()
        assert (done.stdout, done.stderr) == ("6\n", "")
        return
    pytest.skip("every file system that can be written here lets files be executed")


def test_the_processor_says_the_bits_that_the_kernel_lists() -> None:
    from dfc_runtime.processor import host_bits
    from dfc_target_cpu.machine import MACHINES

    known = {bit for machine in MACHINES.values() for bit in machine.required_bits}
    assert asked_bits() == host_bits() & known
    assert asked_bits()
