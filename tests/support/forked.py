"""Work in a forked child, so that a signal which ends it is seen as one."""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a child that does it: 0, 1 if it raised, or the number of a signal in the lower bits."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        faulthandler.enable()
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
