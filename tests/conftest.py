"""Options and fixtures for all tests."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")  # the same examples each time, on however slow a machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what the program says now into the files of expected outputs"
    )


def pytest_configure(config: pytest.Config) -> None:
    """What is compiled for GPUs is kept for this run alone, for all its processes; never among the user's."""
    if not hasattr(config, "workerinput"):
        os.environ["DFC_CACHE"] = tempfile.mkdtemp(prefix="dfc-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["DFC_CACHE"], ignore_errors=True)


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be rewritten."""
    return bool(request.config.getoption("--bless"))
