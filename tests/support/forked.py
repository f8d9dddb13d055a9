"""Work in a forked child: a signal that ends it is seen as one, and a command in it has been imported already."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from dfc.__main__ import main


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a child that does it: 0, 1 if it raised, or the number of a signal in the lower bits."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        faulthandler.enable(2)  # the stream of that name may be one of pytest, without a descriptor
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def forked_command(
    *words: object,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float,
    before: Callable[[], object] = lambda: None,
    output: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """`dfc WORDS` in a process of its own, as far as signals, streams, folder and environment go; but a fork of this
    one, which has imported all of it. What the kernel shows as its environment stays that of this process. `before` is
    called there first; `output` is a file in the place of one that is read afterwards."""
    with tempfile.TemporaryFile() if output is None else output.open("r+b") as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            before()
            _become(list(map(str, words)), folder, environment, (out.fileno(), err.fileno()))
        code = _code_of(child, timeout)
        printed = [os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0).decode() for each in (out, err)]
    return subprocess.CompletedProcess(list(words), code, *printed)


def _code_of(child: int, timeout: float) -> int:
    """The exit code of a child, below zero the signal that ended it."""
    descriptor = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([descriptor], [], [], timeout)
    finally:
        os.close(descriptor)
    if not ended:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended, f"the command had not ended after {timeout} seconds"
    return code


def move_to(folder: Path, environment: Mapping[str, str], streams: tuple[int, int]) -> None:
    """Gives a fork what a new process has: a folder, an environment, streams, and signals that nobody handles."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # to be looked up anew, in this environment
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _become(words: list[str], folder: Path, environment: Mapping[str, str], streams: tuple[int, int]) -> None:
    """The rest of this process is that command."""
    code: object = 1
    try:
        move_to(folder, environment, streams)
        sys.argv = ["dfc", *words]
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
