"""What native code reports when it stops, as an error for the caller."""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.errors import DfcError, EndOfData, RunError
from dfc_runtime.formats.manifest import FaultSite
from dfc_runtime.runners.native import END_OF_DATA, PUT_CLOSED, QUEUE_FAILED, QUEUE_STOPPED, TOO_MANY

_CODES = {
    "assert": "E0903",
    "index": "E0904",
    "division": "E0903",
    "power": "E0903",
    "finite": "E0910",
    "size": "E0903",
}


def run_error(sites: Sequence[FaultSite], site: int, values: tuple[int, ...]) -> DfcError:
    """The error for a fault at this site; the values are what native code left there."""
    if not 0 <= site < len(sites):
        return RunError(f"native code stopped at the unknown place {site}", code="E0903", values=values)
    fault = sites[site]
    if fault.kind == "queue":
        return queue_error(fault, values)
    shown = values[:2] if fault.kind in ("index", "size") else ()
    line = f"\n  {fault.location.line} | {fault.location.text.strip()}" if fault.location.text.strip() else ""
    text = f"{_message(fault, shown)} at {fault.location}{line}"
    return RunError(text, code=_CODES.get(fault.kind, "E0903"), spans=[fault.location], values=shown)


def queue_error(fault: FaultSite, values: tuple[int, ...]) -> DfcError:
    """The error for what a queue refused; its name is the message of the site."""
    queue, reason = f"the queue `{fault.message}`", values[0] if values else 0
    line = f"\n  {fault.location.line} | {fault.location.text.strip()}" if fault.location.text.strip() else ""
    where = f"at {fault.location}{line}"
    if reason == END_OF_DATA:
        text = f"{queue} is closed, and has nothing more to give, {where}"
        return EndOfData(text, code="E0918", spans=[fault.location])
    if reason == TOO_MANY:
        text = f"{values[1]} elements at once are more than {queue} can ever have ready, which is {values[2]},"
        return RunError(f"{text} {where}", code="E0919", spans=[fault.location], values=values[1:3])
    texts = {
        PUT_CLOSED: f"{queue} is closed: nothing can be put in any more",
        QUEUE_FAILED: f"{queue} has nothing more, since a runner has failed,",
        QUEUE_STOPPED: f"{queue} is stopped: the program was closed, or started over,",
    }
    return RunError(f"{texts.get(reason, f'{queue} fails')} {where}", code="E0919", spans=[fault.location])


def _message(fault: FaultSite, values: tuple[int, ...]) -> str:
    if fault.kind == "index" and len(values) == 2:
        return f"index {values[0]} is out of range for axis of size {values[1]}"
    if fault.kind == "size" and len(values) == 2:
        return f"{fault.message} is {values[0]}, but must be between 0 and {values[1]},"
    if fault.kind == "division":
        return fault.message or "integer division by zero"
    return fault.message or "an assertion does not hold"
