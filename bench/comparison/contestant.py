"""A worker process from the side of the driver: started, asked, stopped while another one is measured, ended.

A system's threads may go on spinning after a call; so whoever does not measure is stopped by the system (SIGSTOP), with
all that it has started. Processes are ended by their own ids, never by a name.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WORKER = Path(__file__).resolve().parent / "worker.py"
SLICE_PATIENCE = 600.0
"""Seconds that a single slice may take: one call of the slowest case, many times over."""


class Contestant:
    """A system that prepares a case, then measures in turns. `report` is its first answer."""

    def __init__(
        self,
        python: str,
        words: Sequence[str],
        options: Mapping[str, object],
        variables: Mapping[str, str],
        patience: float,
    ) -> None:
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-P", str(WORKER), *words, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(variables),
            start_new_session=True,
        )
        self._rest = b""
        self.report: dict[str, Any] = self._answer(patience)

    @property
    def is_ready(self) -> bool:
        return bool(self.report.get("ready"))

    @property
    def reason(self) -> str:
        """Why it is not."""
        return str(self.report.get("absent") or self.report.get("failed") or "")

    def measure(self, seconds: float) -> list[float]:
        """Microseconds of each call of a slice; empty once the process fails."""
        return [float(x) for x in self._ask({"measure": seconds}).get("times", [])]

    def megabytes(self) -> float | None:
        """Memory that the calls need beyond what the system itself takes."""
        return self._ask({"memory": True}).get("megabytes")

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the process and all that it has started."""
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def last_words(self) -> str:
        """The end of what it wrote to the standard error."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it wrote nothing"

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)  # a session of its own: the group has the process's id
        except ProcessLookupError:
            pass

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return {}
        answer = self._answer(SLICE_PATIENCE)
        if "failed" in answer or "absent" in answer:
            self.report = answer
            return {}
        return answer

    def _answer(self, patience: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        end = time.monotonic() + patience
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, left))
            if not ready:
                return {"failed": f"no answer within {patience:.0f} s"}
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                return {"failed": f"the process ended: {self.last_words()}"}
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Of this process, without what would lead to other packages, and with compiled Python files allowed."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | dict(variables)


class Load:
    """Processes that do nothing but keep a core busy each, for what happens to a case beside others."""

    def __init__(self, count: int, python: str) -> None:
        command = [python, "-c", "while True: pass"]
        self._processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
