"""What a rank has written, before it ends all ranks: a launcher that is told to end them need not look again at what
they said last.

Assumes that output goes to pipes of the launcher, as it does below `mpiexec`; whatever else it goes to needs no wait.
"""

from __future__ import annotations

import array
import fcntl
import os
import stat
import sys
import termios
import time
from collections.abc import Iterable

LONGEST = 2.0
"""Seconds that a launcher has to read it."""
_PASSED_ON = 0.02
"""Seconds in which it passes on what it has read."""


def until_read(descriptors: Iterable[int] = (1, 2), seconds: float = LONGEST) -> bool:
    """Writes out what was printed, and waits until nothing of it is left in these pipes; False if that takes longer."""
    sys.stdout.flush()
    sys.stderr.flush()
    pipes = [each for each in descriptors if unread(each) is not None]
    end = time.monotonic() + seconds
    while any(unread(each) for each in pipes):
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    if pipes:
        time.sleep(_PASSED_ON)
    return True


def unread(descriptor: int) -> int | None:
    """Bytes in a pipe that nobody has read; None if it is no pipe."""
    count = array.array("i", [0])
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return None
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:
        return None
    return count[0]
