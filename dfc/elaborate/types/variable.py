"""A variable of a program, as far as the front end knows it: one piece of state."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.graph import ResourceKind
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType


@dataclass(eq=False, slots=True)
class Variable:
    """One resource; its first value is in `Program.first_values`, if it has one of its own."""

    name: str
    kind: ResourceKind
    type: TensorType
    trained: bool
    span: Span
    container: str = "default"
    saved: bool = True
    doc: str = ""
    queue: QueueForm | None = None

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[-1]
