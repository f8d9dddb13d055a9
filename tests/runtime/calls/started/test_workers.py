"""A thread bears the name of its call for as long as it has one."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from dfc_runtime.calls.started import workers
from dfc_runtime.calls.started.workers import IDLE, Run, _Worker
from tests.support.pipelines import eventually


class Hasty(SimpleQueue[Run]):
    """Whoever puts a call into it goes on when the thread has done with it."""

    worker: _Worker | None = None

    def put(self, item: Run, block: bool = True, timeout: float | None = None) -> None:
        super().put(item, block, timeout)
        if self.worker is not None:
            eventually(lambda: self.worker in workers._idle)


def test_a_thread_that_is_done_before_its_caller_goes_on_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_idle", [])
    worker, names = _Worker(), list[str]()
    worker._calls = calls = Hasty()
    worker.begin("first", lambda: names.append(threading.current_thread().name))
    eventually(lambda: worker in workers._idle)
    calls.worker = worker
    workers._idle.remove(worker)
    worker.begin("second", lambda: names.append(threading.current_thread().name))
    assert names == ["first", "second"]
    assert worker._thread is not None and worker._thread.name == IDLE
