"""Steps: loops and branches over registers, resources, constants, arena buffers, checks, cuts into functions."""

import ctypes
from collections.abc import Callable

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.attributes import Literal
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F32, I64, DType
from dfc.ir.graph import Resource, ResourceKind
from dfc.ir.options import TargetOptions
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder, Load
from dfc.kernels.form import Kernel, LoopKernel, Operand, Stage, Store
from dfc.kernels.program import (
    Buffer,
    BufferRole,
    Check,
    Copy,
    EntryProgram,
    Fault,
    For,
    HostCall,
    HostSite,
    If,
    Launch,
    Program,
    Step,
    While,
)
from dfc_driver_cpu.driver import CpuDriver, aligned_bytes
from dfc_target_cpu.target import CpuTarget
from tests.support.programs import KernelMaker

N = dim(Symbol("N"))


def scalar(function: str, dtype: DType, result: DType | None = None) -> LoopKernel:
    """out = function(a, b) on scalars."""
    body = BodyBuilder()
    a, b = (body.append(Load(i, ()), (), dtype) for i in range(2))
    value = body.apply(function, a, b)
    operands = (Operand(dtype, (), "read"), Operand(dtype, (), "read"), Operand(result or dtype, (), "write"))
    return LoopKernel(operands, (), 0, (Stage((), tuple(body.instructions), (), (Store(2, (), value),)),))


class Entry:
    """An entry under construction."""

    def __init__(self, arguments: list[tuple[DType, tuple]], results: list[tuple[DType, tuple]]) -> None:
        self.buffers: list[Buffer] = []
        self.arguments = [self.add(d, s, BufferRole.ARGUMENT, index=i) for i, (d, s) in enumerate(arguments)]
        self.results = [self.add(d, s, BufferRole.RESULT, index=i) for i, (d, s) in enumerate(results)]

    def add(self, dtype: DType, shape: tuple, role: BufferRole, **more: object) -> int:
        self.buffers.append(Buffer(dtype, tuple(dim(s) for s in shape), role, f"b{len(self.buffers)}", **more))
        return len(self.buffers) - 1

    def register(self, dtype: DType) -> int:
        return self.add(dtype, (), BufferRole.REGISTER)

    def finish(self, *steps: Step) -> EntryProgram:
        return EntryProgram(
            "e", self.buffers, steps, tuple(self.arguments), tuple(self.results), (Symbol("N"),), N * 64, dim(0)
        )


def build(
    kernels: list[Kernel],
    entry: EntryProgram,
    state: dict[str, np.ndarray] | None = None,
    host: Callable[[int, int], None] | None = None,
    **more: object,
):
    program = Program("t", kernels, [entry], **more)
    program.faults = [Fault("assert", "x", Span.nowhere()) for _ in range(3)]
    program.resources = {
        name: Resource(name, ResourceKind.VARIABLE, TensorType(F32, (N,)), True, None, Span.nowhere())
        for name in state or {}
    }
    lowered = CpuTarget().lower(program, TargetOptions())
    blob = aligned_bytes(len(lowered.constants))
    blob[:] = np.frombuffer(lowered.constants, np.uint8)
    image = lowered.images[0]
    driver = CpuDriver(
        image=image.code,
        symbols=image.symbols,
        notes=lowered.notes,
        constants=blob,
        resources=state or {},
        threads=1,
        host=host,
    )
    return driver, lowered


def slots(*values: object) -> np.ndarray:
    found = np.zeros(len(values), np.int64)
    for place, value in enumerate(values):
        if isinstance(value, np.ndarray):
            found[place] = value.ctypes.data
        elif isinstance(value, float):
            found[place : place + 1].view(np.float32)[0] = value
        else:
            found[place] = value
    return found


def test_scalars_by_value() -> None:
    e = Entry([(F32, ()), (F32, ())], [(F32, ())])
    driver, _ = build([scalar("add", F32)], e.finish(Launch(0, (0, 1, 2), ())))
    call = slots(1.5, 2.25, 0, 0, 0)
    assert driver.entry(0).call(call.ctypes.data) == 0
    assert call[2:3].view(np.float32)[0] == 3.75


def counting() -> tuple[list[Kernel], Entry, tuple[Step, ...]]:
    """result = the sum of all numbers below the argument, by a while loop on registers."""
    e = Entry([(I64, ()), (I64, ()), (I64, ())], [(I64, ())])
    i, total, test = e.register(I64), e.register(I64), e.register(BOOL)
    kernels = [scalar("add", I64), scalar("less", I64, BOOL)]
    loop = While((Launch(1, (i, 0, test), ()),), test, (Launch(0, (total, i, total), ()), Launch(0, (i, 2, i), ())))
    return kernels, e, (Copy(1, i), Copy(1, total), loop, Copy(total, 3))


def test_while_loop_of_scalars() -> None:
    kernels, e, steps = counting()
    driver, _ = build(kernels, e.finish(*steps))
    for count in (0, 1, 7, 100_000):
        call = slots(count, 0, 1, 0, 0, 0)
        assert driver.entry(0).call(call.ctypes.data) == 0
        assert call[3] == count * (count - 1) // 2


def test_for_and_if() -> None:
    e = Entry([(I64, ()), (I64, ()), (BOOL, ())], [(I64, ())])
    i, total = e.register(I64), e.register(I64)
    choice = If(2, (Launch(0, (total, i, total), ()),), (Launch(1, (total, i, total), ()),))
    steps = (Copy(0, total), For(i, 0, 1, (choice,)), Copy(total, 3))
    driver, _ = build([scalar("add", I64), scalar("sub", I64)], e.finish(*steps))
    for flag, sign in ((1, 1), (0, -1)):
        call = slots(3, 11, flag, 0, 0, 0)
        assert driver.entry(0).call(call.ctypes.data) == 0
        assert call[3] == 3 + sign * sum(range(3, 11))


def test_check_stops_the_call_and_the_next_call_is_clean() -> None:
    e = Entry([(BOOL, ()), (F32, ())], [(F32, ())])
    driver, _ = build([], e.finish(Check(0, 2), Copy(1, 2)))
    call = slots(0, 4.0, 0, 0, 0)
    assert driver.entry(0).call(call.ctypes.data) != 0
    assert driver.last_fault()[0] == 2 and call[2] == 0
    call[0] = 1
    assert driver.entry(0).call(call.ctypes.data) == 0
    assert call[2:3].view(np.float32)[0] == 4.0


def twice() -> LoopKernel:
    k = KernelMaker(1)
    x, y = k.load(F32, 0), k.load(F32, 0)
    return k.map(k.store(k.body.apply("add", x, y), 0))


def test_state_constants_arena_and_copies() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    state = e.add(F32, (N,), BufferRole.RESOURCE, resource="w")
    constant = e.add(F32, (4,), BufferRole.CONSTANT, index=1)
    first = e.add(F32, (N,), BufferRole.ARENA)
    second = e.add(F32, (N,), BufferRole.ARENA, offset=N * 4)
    steps = (
        Launch(0, (0, state, first), (N,)),
        Launch(0, (first, first, second), (N,)),
        Copy(second, state),
        Launch(0, (second, constant, 1), (dim(4),)),
    )
    w = np.arange(9, dtype=np.float32)
    literals = [Literal(np.full(3, 5, np.float32)), Literal(np.array([1, 2, 3, 4], np.float32))]
    driver, lowered = build([twice()], e.finish(*steps), {"w": w}, constants=literals)
    assert all(offset % 64 == 0 for offset in lowered.constant_offsets)
    x, out, arena = np.full(9, 10, np.float32), np.zeros(9, np.float32), aligned_bytes(9 * 64)
    call = slots(x, out, 9, arena)
    assert driver.entry(0).call(call.ctypes.data) == 0
    assert np.array_equal(w, 2 * (10 + np.arange(9)))
    assert np.array_equal(out[:4], np.add(w[:4], [1, 2, 3, 4])) and not out[4:].any()


def test_registers_as_operands_of_array_kernels() -> None:
    k = KernelMaker(1)
    x = k.load(F32, 0)
    factor = k.operand(F32, (), "read")
    scaled = k.body.apply("mul", x, k.body.append(Load(factor, ()), (), F32))
    kernel = k.map(k.store(scaled, 0))
    e = Entry([(F32, (N,)), (F32, ())], [(F32, (N,))])
    r = e.register(F32)
    steps = (Launch(1, (1, 1, r), ()), Launch(0, (0, r, 2), (N,)))
    driver, _ = build([kernel, scalar("add", F32)], e.finish(*steps))
    x_, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    assert driver.entry(0).call(slots(x_, 1.5, out, 5, 0).ctypes.data) == 0
    assert np.array_equal(out, x_ * 3)


def test_scalars_survive_a_call_of_the_host_that_takes_and_gives_some() -> None:
    e = Entry([(F32, ()), (F32, ())], [(F32, ())])
    r, got = e.register(F32), e.register(F32)
    site = HostSite("tell", (), ((F32, ()),), ((F32, ()),), ("tell",), Span.nowhere())
    steps = (Launch(0, (0, 1, r), ()), HostCall(0, (r,), (got,)), Launch(0, (r, got, 2), ()))
    seen: list[float] = []

    def host(number: int, frame: int) -> None:
        words = (ctypes.c_int64 * 3).from_address(frame)
        assert (number, words[0]) == (0, 1)
        seen.append(ctypes.c_float.from_address(words[1]).value)
        ctypes.c_float.from_address(words[2]).value = 10.0
        words[0] = 0

    driver, _ = build([scalar("add", F32)], e.finish(*steps), host=host, sites=[site])
    call = slots(1.0, 2.0, 0, 0, 0)
    assert driver.entry(0).call(call.ctypes.data) == 0
    assert seen == [3.0] and call[2:3].view(np.float32)[0] == 13.0


def test_a_request_that_nobody_answers_is_a_fault() -> None:
    e = Entry([(F32, ())], [])
    site = HostSite("tell", (), ((F32, ()),), (), ("tell",), Span.nowhere())
    driver, _ = build([], e.finish(HostCall(0, (0,), ())), sites=[site])
    assert driver.entry(0).call(slots(1.0, 0, 0).ctypes.data) != 0
    assert driver.last_fault()[0] == -1


def test_thousands_of_steps_become_several_functions() -> None:
    e = Entry([(F32, ()), (F32, ())], [(F32, ())])
    registers = [e.register(F32) for _ in range(3)]
    steps: list[Step] = [Copy(0, registers[0])]
    for number in range(3000):
        source, target = registers[number % 3], registers[(number + 1) % 3]
        steps.append(Launch(0, (source, 1, target), ()))
    steps.append(Copy(registers[0], 2))
    driver, lowered = build([scalar("add", F32)], e.finish(*steps))
    call = slots(1.0, 2.0, 0, 0, 0)
    assert driver.entry(0).call(call.ctypes.data) == 0
    assert call[2:3].view(np.float32)[0] == 6001.0
    assert lowered.notes["spill_bytes"] == 64


def test_equal_programs_give_equal_bytes() -> None:
    made = []
    for _ in range(2):
        kernels, e, steps = counting()
        made.append(build(kernels, e.finish(*steps))[1].images[0].code)
    assert made[0] == made[1]


def test_every_variant_can_be_made_in_one_bundle() -> None:
    kernels, e, steps = counting()
    program = Program("t", [*kernels, twice()], [e.finish(*steps)])
    names = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
    images = CpuTarget().lower(program, TargetOptions(isas=names)).images
    assert [image.isa for image in images] == ["x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64"]
    assert all(image.required_bits for image in images)
