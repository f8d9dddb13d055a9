"""Reporting a fault from generated code: an index out of range, a division by zero, a negative power, a failed check.

Guarantees that the site and its values are in the context's error record before the function is left; sites in the
record count from 1.
"""

from collections.abc import Sequence

from dfc_driver_cpu.context import ERROR_PAYLOAD
from dfc_target_cpu.entries.context_code import report_error
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import i64, lane_count


def report_if(
    module: ModuleText, f: FunctionText, context: Value, bad: Value, site: int, values: Sequence[Value]
) -> str:
    """Where any lane of `bad` is set: record `site` with the values of the first such lane. Returns the label of the
    block that is left open for the caller to end; instructions go on after it (call `resume`)."""
    cold, fine = f.label("fault"), f.label("fine")
    f.branch_if(f.reduce("or", bad), cold, fine)
    f.begin(cold)
    payload = [_first(f, bad, value) for value in values]
    payload += [i64(0)] * (ERROR_PAYLOAD - len(payload))
    f.call(report_error(module), "void", [context, i64(site + 1), *payload])
    return fine


def _first(f: FunctionText, bad: Value, value: Value) -> Value:
    """The value in the first lane that is bad."""
    lanes = lane_count(bad.type)
    if lanes == 1 or lane_count(value.type) == 1:
        return value
    kind = f"i{lanes}"
    bits = f.cast("bitcast", bad, kind)
    name = f"llvm.cttz.{kind}"
    f.declare(name, kind, [kind, "i1"])
    lane = f.assign(kind, f"call {kind} @{name}({bits}, i1 false)")
    return f.extract(value, f.resize(lane, "i32", signed=False) if kind != "i32" else lane)
