"""Generated access to the context: fields, the error record, and asking whether to stop.

Assumes the context's ABI of `context.py`. Guarantees that of several errors of one call the one with the lowest
(site, payload) is kept, so that what is reported does not depend on the threads.
"""

import ctypes

from dfc_driver_cpu.context import ERROR_PAYLOAD, Context, llvm_type_of, offset_of
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, i64


def field_address(f: FunctionText, structure: type[ctypes.Structure], base: Value, field: str) -> Value:
    return f.gep("i8", base, i64(offset_of(structure, field)))


def load_field(f: FunctionText, context: Value, field: str) -> Value:
    """The value of a scalar field of the context."""
    return f.load(llvm_type_of(Context, field), field_address(f, Context, context, field))


def poll_now(module: ModuleText) -> str:
    """`i64 (ptr context)`: has the run side look whether the call is to stop; 0 if it goes on."""
    return module.shared("poll_now", _poll_now)


def _poll_now(module: ModuleText) -> FunctionText:
    """`stopping` is set beforehand: a signal may come before the first line of the run side."""
    f = module.function("poll_now", "i64", [Parameter("ptr", "context")], attributes="nounwind noinline cold")
    (context,) = f.arguments
    stopping = field_address(f, Context, context, "stopping")
    f.store(i64(1), stopping)
    f.call_pointer(load_field(f, context, "poll"), "void", [i64(0)])
    f.ret(f.load("i64", stopping))
    return f


def poll_part(module: ModuleText) -> str:
    """`i64 (ptr context)`: whether the rest of a kernel need not run. Only the thread of the call asks the run side; a
    kernel that changes state runs to its end."""
    return module.shared("poll_part", _poll_part)


def _poll_part(module: ModuleText) -> FunctionText:
    f = module.function("poll_part", "i64", [Parameter("ptr", "context")], attributes="nounwind noinline cold")
    (context,) = f.arguments
    goes_on, may_stop, ask, other = (f.label(x) for x in ("goes.on", "may.stop", "ask", "other"))
    f.branch_if(f.icmp("ne", load_field(f, context, "committed"), i64(0)), goes_on, may_stop)
    f.begin(goes_on)
    f.ret(i64(0))
    f.begin(may_stop)
    f.branch_if(f.icmp("eq", load_field(f, context, "caller"), thread_pointer(module, f)), ask, other)
    f.begin(ask)
    f.ret(f.call(poll_now(module), "i64", [context]))
    f.begin(other)
    f.ret(f.atomic_load("i64", field_address(f, Context, context, "leave"), "monotonic"))
    return f


def asked_to_leave(module: ModuleText, f: FunctionText, context: Value, leave: str) -> None:
    """In a kernel: goes to `leave` if the call is to stop. A load and a branch."""
    attention = f.atomic_load("i64", field_address(f, Context, context, "attention"), "monotonic")
    with f.when(f.icmp("ne", attention, i64(0)), "asked"):
        stops = f.call(poll_part(module), "i64", [context])
        stays = f.label("stays")
        f.branch_if(f.icmp("ne", stops, i64(0)), leave, stays)
        f.begin(stays)


def thread_pointer(module: ModuleText, f: FunctionText) -> Value:
    """What tells the threads of a process apart."""
    module.declare("llvm.thread.pointer", "ptr", [])
    return f.cast("ptrtoint", f.assign("ptr", "call ptr @llvm.thread.pointer()"), "i64")


def report_error(module: ModuleText) -> str:
    """`void (ptr context, i64 site, i64 p0 .. p3)`: record an error; the lowest (site, payload) wins."""
    return module.shared("report_error", _report_error)


def _report_error(module: ModuleText) -> FunctionText:
    payload = [Parameter("i64", f"p{i}") for i in range(ERROR_PAYLOAD)]
    parameters = (Parameter("ptr", "context"), Parameter("i64", "site"), *payload)
    f = module.function("report_error", "void", parameters, attributes="nounwind noinline cold")
    context = f.arguments[0]
    lock = field_address(f, Context, context, "error_lock")
    _acquire(f, lock)
    site = field_address(f, Context, context, "error_site")
    record = [site, *(f.gep("i64", field_address(f, Context, context, "error_payload"), i64(i)) for i in range(4))]
    old = [f.load("i64", address) for address in record]
    empty = f.icmp("eq", old[0], i64(0))
    with f.when(f.bit_or(empty, _less(f, f.arguments[1:], old))):
        for value, address in zip(f.arguments[1:], record, strict=True):
            f.store(value, address)
    f.atomic_store(i64(0), lock)
    f.ret()
    return f


def _acquire(f: FunctionText, lock: Value) -> None:
    again, taken = f.label("again"), f.label("taken")
    f.branch(again)
    f.begin(again)
    _, success = f.compare_exchange(lock, i64(0), i64(1))
    f.branch_if(success, taken, again)
    f.begin(taken)


def _less(f: FunctionText, left: tuple[Value, ...], right: list[Value]) -> Value:
    """Lexicographic order, decided from the last component to the first."""
    result = FALSE
    for a, b in reversed(list(zip(left, right, strict=True))):
        result = f.bit_or(f.icmp("slt", a, b), f.bit_and(f.icmp("eq", a, b), result))
    return result
