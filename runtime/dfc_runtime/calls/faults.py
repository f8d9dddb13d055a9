"""What native code reports when it stops, as an error for the caller."""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.errors import RunError
from dfc_runtime.formats.manifest import FaultSite

_CODES = {
    "assert": "E0903",
    "index": "E0904",
    "division": "E0903",
    "power": "E0903",
    "finite": "E0910",
    "size": "E0903",
}


def run_error(sites: Sequence[FaultSite], site: int, values: tuple[int, ...]) -> RunError:
    """The error for a fault at this site; the values are what native code left there."""
    if not 0 <= site < len(sites):
        return RunError(f"native code stopped at the unknown place {site}", code="E0903", values=values)
    fault = sites[site]
    shown = values[:2] if fault.kind in ("index", "size") else ()
    line = f"\n  {fault.location.line} | {fault.location.text.strip()}" if fault.location.text.strip() else ""
    text = f"{_message(fault, shown)} at {fault.location}{line}"
    return RunError(text, code=_CODES.get(fault.kind, "E0903"), spans=[fault.location], values=shown)


def _message(fault: FaultSite, values: tuple[int, ...]) -> str:
    if fault.kind == "index" and len(values) == 2:
        return f"index {values[0]} is out of range for axis of size {values[1]}"
    if fault.kind == "size" and len(values) == 2:
        return f"{fault.message} is {values[0]}, but must be between 0 and {values[1]},"
    if fault.kind == "division":
        return fault.message or "integer division by zero"
    return fault.message or "an assertion does not hold"
