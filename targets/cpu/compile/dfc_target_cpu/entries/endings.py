"""What a call gives back when it ends: its place among the users of the pool, and mutexes that it still holds."""

from dfc_target_cpu.entries.context_code import load_field
from dfc_target_cpu.entries.queues import release
from dfc_target_cpu.entries.scope import EntryScope
from dfc_target_cpu.entries.threads import pool_leave
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64


def end(scope: EntryScope, f: FunctionText, context: Value) -> None:
    """Where a call ends, or leaves the processor to others."""
    lowering = scope.lowering
    f.call(pool_leave(lowering.module, lowering.machine), "void", [context])


def end_failed(scope: EntryScope, f: FunctionText, context: Value) -> None:
    """Where a call does not end well."""
    end(scope, f, context)
    lowering, program = scope.lowering, scope.program
    for name, number in scope.resources.items():
        form = program.resources[name].queue
        if form is not None and form.is_mutex:
            variables = load_field(f, context, "variables")
            mutex = f.load("ptr", f.gep("ptr", variables, i64(number)))
            f.call(release(lowering.module, lowering.machine), "void", [context, mutex])
