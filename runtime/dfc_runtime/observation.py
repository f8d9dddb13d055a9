"""What the run side is doing, told to whoever listens: how tests see the order in which a bundle is checked."""

from __future__ import annotations

from collections.abc import Callable

listeners: list[Callable[[str], None]] = []


def observe(event: str) -> None:
    """Tells every listener."""
    for listener in listeners:
        listener(event)
