"""Programs with queues and runners, loaded for a test; and what there is to look at while they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import dfc
from dfc_runtime.calls.hosts import Handler
from dfc_runtime.module import Module

COUNT = """
var n: i64 = 0
runner count {{
  numbers.put(n)
  n += 1
  if n == {last} {{ numbers.close() }}
}}
"""
"""Puts the numbers below `last` into the queue `numbers`, and closes it."""
PATIENCE = 30.0
"""Seconds after which a test fails in which something does not happen."""


def loaded(text: str, threads: int = 1, **handlers: Handler) -> Module:
    """A program of its own."""
    return dfc.loads(compiled(text), threads=threads, handlers=handlers)


@cache
def compiled(text: str) -> bytes:
    return dfc.compile(text=f"dfg 1\n{text}").to_bytes()


def drained(function: Callable[[], object]) -> list[object]:
    """What a call gives until the end of the data."""
    values: list[object] = []
    while True:
        try:
            values.append(function())
        except dfc.EndOfData:
            return values


def eventually(condition: Callable[[], bool]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.002)


def numbers_of(model: Module, queue: str) -> tuple[int, int, int]:
    """How many elements were put in and taken out of a queue, and its state."""
    return model._machinery.driver.queues.queue(queue).numbers


def runner_threads(model: Module) -> list[str]:
    """The names of the threads of a module's runners that are alive."""
    crew = model._machinery.runners._crew
    threads = [thread for running in crew.running.values() for thread in running.threads]
    return sorted(thread.name for thread in threads if thread.is_alive())
