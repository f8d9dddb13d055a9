"""What ranks say to each other besides calls: plain data and arrays."""

from __future__ import annotations

from collections.abc import Callable

from dfc_runtime.distributed.transport.comm import Array

Data = dict[str, object]
Answer = tuple[Data, list[Array]]
Command = Callable[[Data, list[Array]], Answer]
"""What every rank does when it is told to, with plain data and arrays; both come back to the client."""
