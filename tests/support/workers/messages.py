"""What a worker says, as lines of JSON: a report, a warning, that a test ends all, or what went wrong outside of any.

pytest itself says how a report becomes plain data and back (`pytest_report_to_serializable`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import pytest

Message = Mapping[str, Any]


def encode(kind: str, **parts: object) -> bytes:
    """One line."""
    return json.dumps({"kind": kind, **parts}).encode() + b"\n"


def of_report(config: pytest.Config, report: pytest.TestReport) -> bytes:
    return encode("report", data=config.hook.pytest_report_to_serializable(config=config, report=report))


def of_warning(
    warning: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
) -> bytes:
    text, category = str(warning.message), warning.category.__name__
    return encode(
        "warning",
        text=text,
        category=category,
        filename=warning.filename,
        line=warning.lineno,
        when=when,
        nodeid=nodeid,
        location=location,
    )


def publish(config: pytest.Config, line: bytes) -> str | None:
    """Passes on what a worker said to the hooks of the first process; returns what went wrong, if it says so."""
    message: Message = json.loads(line)
    if message["kind"] == "report":
        data = message["data"]
        if isinstance(data["longrepr"], list):  # where and why a test was skipped: a tuple to begin with
            data["longrepr"] = tuple(data["longrepr"])
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)
    elif message["kind"] == "warning":
        category = type(message["category"], (UserWarning,), {})
        recorded = warnings.WarningMessage(category(message["text"]), category, message["filename"], message["line"])
        location = message["location"]
        config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": recorded,
                "when": message["when"],
                "nodeid": message["nodeid"],
                "location": tuple(location) if location else None,
            }
        )
    elif message["kind"] == "exit":
        pytest.exit(message["text"], message["code"])
    else:
        return str(message["text"])
    return None
