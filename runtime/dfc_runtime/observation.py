"""What the run side is doing, as events for whoever listens: how tests see the order in which a bundle is checked."""

from __future__ import annotations

from collections.abc import Callable

listeners: list[Callable[[str], None]] = []


def observe(event: str) -> None:
    """Calls every listener."""
    for listener in listeners:
        listener(event)
