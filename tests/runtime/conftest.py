"""The fake driver, found by name while a test runs."""

from __future__ import annotations

import pytest

from dfc_runtime import driver


@pytest.fixture(autouse=True)
def fake_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(driver.BUILT_IN, "fake", "tests.support.fake_driver:FakeDriver")
    monkeypatch.setitem(driver.BUILT_IN, "reentrant", "tests.support.fake_driver:ReentrantDriver")
