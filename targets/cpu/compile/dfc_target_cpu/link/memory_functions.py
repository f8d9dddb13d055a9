"""`memset`, `memcpy` and `memmove` as code of our own.

Assumes that LLVM may turn loops and intrinsics into calls of these, so that an image has to bring them along.
Guarantees the C meaning. The module holding them is compiled without the optimiser, which would recognise their loops
as calls of themselves.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type
from dfc_target_cpu.machine import Machine

MEMORY_FUNCTIONS = frozenset(("memset", "memcpy", "memmove"))

_ATTRIBUTES = 'nounwind "no-builtins"'


def memory_functions_text(machine: Machine) -> str:
    """The module that defines them all."""
    module = ModuleText(machine.triple)
    lanes = machine.vector_bits // 8
    module.add(_fill(module, lanes))
    for name, both_ways in (("memcpy", False), ("memmove", True)):
        module.add(_move(module, name, lanes, both_ways))
    return module.text()


def _fill(module: ModuleText, lanes: int) -> FunctionText:
    parameters = (Parameter("ptr", "target"), Parameter("i32", "value"), Parameter("i64", "size"))
    f = module.function("memset", "ptr", parameters, linkage="hidden", attributes=_ATTRIBUTES)
    target, value, size = f.arguments
    byte = f.cast("trunc", value, "i8")
    vector = f.splat(byte, lanes)
    small, large = f.label("small"), f.label("large")
    f.branch_if(f.icmp("slt", size, i64(lanes)), small, large)
    f.begin(small)
    with f.counted_loop(i64(0), size) as loop:
        f.store(byte, f.gep("i8", target, loop.index))
    f.ret(target)
    f.begin(large)
    last = f.sub(size, i64(lanes))
    with f.counted_loop(i64(0), last, lanes) as loop:
        f.store(vector, f.gep("i8", target, loop.index))
    f.store(vector, f.gep("i8", target, last))
    f.ret(target)
    return f


def _move(module: ModuleText, name: str, lanes: int, both_ways: bool) -> FunctionText:
    parameters = (Parameter("ptr", "target"), Parameter("ptr", "source"), Parameter("i64", "size"))
    f = module.function(name, "ptr", parameters, linkage="hidden", attributes=_ATTRIBUTES)
    target, source, size = f.arguments
    if both_ways:
        backward, forward = f.label("backward"), f.label("forward")
        distance = f.sub(f.cast("ptrtoint", target, "i64"), f.cast("ptrtoint", source, "i64"))
        f.branch_if(f.icmp("ult", distance, size), backward, forward)
        f.begin(backward)
        _copy(f, lanes, backwards=True)
        f.ret(target)
        f.begin(forward)
    _copy(f, lanes, backwards=False)
    f.ret(target)
    return f


def _copy(f: FunctionText, lanes: int, *, backwards: bool) -> None:
    """Whole vectors, then the odd end as one more vector that overlaps them (read before anything is written)."""
    target, source, size = f.arguments
    small, large, done = f.label("small"), f.label("large"), f.label("done")
    f.branch_if(f.icmp("slt", size, i64(lanes)), small, large)
    f.begin(small)
    with f.counted_loop(i64(0), size) as loop:
        offset = f.sub(f.sub(size, i64(1)), loop.index) if backwards else loop.index
        f.store(f.load("i8", f.gep("i8", source, offset)), f.gep("i8", target, offset))
    f.branch(done)
    f.begin(large)
    vector = vector_type(lanes, "i8")
    last = f.sub(size, i64(lanes))
    odd_end = i64(0) if backwards else last
    end = f.load(vector, f.gep("i8", source, odd_end))
    with f.counted_loop(i64(0), last, lanes) as loop:
        offset = f.sub(last, loop.index) if backwards else loop.index
        _copy_vector(f, vector, target, source, offset)
    f.store(end, f.gep("i8", target, odd_end))
    f.branch(done)
    f.begin(done)


def _copy_vector(f: FunctionText, vector: str, target: Value, source: Value, offset: Value) -> None:
    f.store(f.load(vector, f.gep("i8", source, offset)), f.gep("i8", target, offset))
