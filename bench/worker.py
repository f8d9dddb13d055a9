"""One system and one case in a process: prepares, then measures a slice of time whenever it is told to.

`python -m bench.worker SYSTEM CASE` prints `ready` (or `absent: REASON`), then for every line on standard input that
gives a number of seconds it prints the microseconds of each call made within that time, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

LEAST_CALLS = 3


def measure(call: Callable[[], object], seconds: float) -> list[float]:
    """Microseconds per call; calls too short for the clock are timed in groups of up to 100."""
    start = time.perf_counter()
    call()
    group = max(1, min(100, int(20e-6 / max(time.perf_counter() - start, 1e-7))))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(group):
            call()
        times.append((time.perf_counter() - start) / group * 1e6)
    return times


def main() -> None:
    system, case = sys.argv[1:3]
    try:
        prepare = getattr(import_module(f"bench.systems.{system}_system"), case, None)
        call = prepare() if prepare else None
    except ImportError as missing:
        print(f"absent: {missing}", flush=True)
        return
    if call is None:
        print("absent: no such case", flush=True)
        return
    for _ in range(3):
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(call, float(line))), flush=True)


if __name__ == "__main__":
    main()
