"""Work in a forked child under `strace`, which counts its system calls, kills it at one, or has calls fail.

Assumes Linux, and a process that may be traced by another child of its parent. Guarantees that all of the work is
traced: it begins when `strace` has said that it is attached.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)
"""Of `prctl.h`: who may trace this process, where Yama lets only those who started it."""


def traced(work: Callable[[], object], log: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What a child printed that did the work, and how it ended; `log` gets its calls. `OSError` where `strace` may not
    trace it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source, target = os.pipe()
        child = os.fork()
        if not child:
            os.close(target)
            _work_when_traced(work, source, (out.fileno(), err.fileno()))
        os.close(source)
        words = ["strace", "-f", "-o", str(log), *options, "-p", str(child)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            line = tracer.stderr.readline()
            is_attached = line.rstrip().endswith(" attached")
            os.write(target, b"begin" if is_attached else b"")
            os.close(target)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            tracer.stderr.read()
        if not is_attached:
            raise OSError(line.strip())
        printed = [os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0).decode() for each in (out, err)]
    return subprocess.CompletedProcess(words, code, *printed)


def _work_when_traced(work: Callable[[], object], source: int, streams: tuple[int, int]) -> None:
    """The rest of this process; without a word it ends."""
    status = 1
    try:
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
        if os.read(source, 9):
            work()
            status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def obstacle() -> str:
    """Why nothing can be traced; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        traced(lambda: None, Path(os.devnull))
    except OSError as refused:
        return f"strace may not trace here: {str(refused)[:100]}"
    return ""
