"""Kernel functions as LLVM code on any number of lanes: short ones where they are used, others once in the module.

Assumes round-to-nearest and subnormal numbers switched on. Guarantees the results of `interpret_function` to the bit on
machines with fused multiply-add, and the same bits for any number of lanes on each. What only some lanes do, or some
longer than others, is done lane by lane: it is rare in hot code.
"""

from collections.abc import Sequence
from functools import cache

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.functions import (
    Argument,
    Call,
    Function,
    Instruction,
    Lookup,
    Number,
    Part,
    Primitive,
    Repeat,
    Table,
    Where,
    with_callees,
)
from dfc.lower.legalise.double_words import fma_by_doubles_function
from dfc_target_cpu.elementwise.machine_forms import machine_form
from dfc_target_cpu.elementwise.primitives import primitive
from dfc_target_cpu.elementwise.types import number_literal, register_type, splat_literal_value
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import (
    element_type,
    i64,
    intrinsic_suffix,
    lane_count,
    like,
    poison,
    vector_type,
    zero,
)
from dfc_target_cpu.machine import Machine

_SHORT = 16
"""Instructions of a function that is written out wherever it is used."""
_UNROLLED = 16
"""Iterations of a loop that is written out."""


class KernelFunctions:
    """The kernel functions of one module for one machine."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module, self.machine = module, machine

    def apply(self, f: FunctionText, function: Function, *arguments: Value) -> list[Value]:
        """The results inside `f`; all arguments have the same number of lanes."""
        if _length(function) <= _SHORT or machine_form(self.machine, function.name) is not None:
            return self.written_out(f, function, *arguments)
        if _runs_alone(function) and lane_count(arguments[0].type) > 1:
            return self._by_lanes(f, function, arguments)
        return self._called(f, function, arguments)

    def written_out(self, f: FunctionText, function: Function, *arguments: Value) -> list[Value]:
        """The same where it is asked for, without a call."""
        form = machine_form(self.machine, function.name)
        result = form(f, arguments) if form is not None else None
        if isinstance(result, Function):
            return self._inside(f, result, arguments)
        if result is not None:
            return [result]
        if _runs_alone(function) and lane_count(arguments[0].type) > 1:
            return self._by_lanes(f, function, arguments)
        return self._inside(f, function, arguments)

    # --- as a function of the module

    def defined(self, function: Function, lanes: int, attributes: str = "") -> str:
        """The name of the module's function that takes and gives vectors of so many lanes."""
        types = [vector_type(lanes, register_type(one.dtype)) for one in function.parameters]
        suffix = intrinsic_suffix(vector_type(lanes, register_type(function.result_types[0])))
        key = f"{function.name}.{suffix}"

        def build() -> FunctionText:
            formals = [Parameter(kind, one.name) for kind, one in zip(types, function.parameters, strict=True)]
            function_attributes = attributes or ("nounwind alwaysinline" if _is_inlined(function) else "nounwind")
            f = self.module.function(key, _returned(function, lanes), formals, attributes=function_attributes)
            results = self._inside(f, function, f.arguments)
            f.ret(results[0] if len(results) == 1 else _packed(f, results))
            return f

        return self.module.define(key, build)

    def _called(
        self, f: FunctionText, function: Function, arguments: Sequence[Value], attributes: str = ""
    ) -> list[Value]:
        lanes = lane_count(arguments[0].type)
        result = f.call(self.defined(function, lanes, attributes), _returned(function, lanes), arguments)
        types = function.result_types
        if len(types) == 1:
            return [result]
        kinds = [vector_type(lanes, register_type(dtype)) for dtype in types]
        return [f.assign(kind, f"extractvalue {result}, {number}") for number, kind in enumerate(kinds)]

    def _by_lanes(self, f: FunctionText, function: Function, arguments: Sequence[Value]) -> list[Value]:
        lanes = lane_count(arguments[0].type)
        results = [poison(vector_type(lanes, register_type(dtype))) for dtype in function.result_types]
        for lane in range(lanes):
            result = self._called(f, function, [f.extract(value, lane) for value in arguments])
            results = [f.insert(whole, one, lane) for whole, one in zip(results, result, strict=True)]
        return results

    # --- written out

    def _inside(self, f: FunctionText, function: Function, arguments: Sequence[Value]) -> list[Value]:
        """The results of a function's instructions, here."""
        values: list[list[Value]] = []
        for one in function.body:
            values.append(self._instruction(f, function, one, values, arguments))
        return [values[result][0] for result in function.results]

    def _instruction(
        self,
        f: FunctionText,
        function: Function,
        one: Instruction,
        values: Sequence[Sequence[Value]],
        arguments: Sequence[Value],
    ) -> list[Value]:
        lanes = lane_count(arguments[0].type)
        if isinstance(one.operation, Part):
            return [values[one.arguments[0]][one.operation.number]]
        operands = [values[argument][0] for argument in one.arguments]
        match one.operation:
            case Argument(number):
                return [arguments[number]]
            case Number(bits):
                return [splat_literal_value(number_literal(one.dtype, bits), lanes)]
            case Primitive("fma") if not self.machine.fused_multiply_add:
                return self._inside(f, _unfused(one.dtype), operands)
            case Primitive(name):
                return [primitive(f, name, operands, function.body[one.arguments[0]].dtype, one.dtype)]
            case Lookup(table):
                return [self._looked_up(f, table, operands[0])]
            case Call(callee):
                return self.written_out(f, callee, *operands)
            case Where(callee):
                return self._where(f, callee, operands)
            case Repeat():
                return self._repeated(f, one.operation, operands)

    def _looked_up(self, f: FunctionText, table: Table, index: Value) -> Value:
        words = [word - (1 << 32) if word >> 31 else word for word in table.words]
        pointer = f.gep("i32", self.module.table("i32", words), index)
        return f.cast("zext", f.load("i32", pointer), "i64")

    # --- loops and choices

    def _repeated(self, f: FunctionText, operation: Repeat, operands: Sequence[Value]) -> list[Value]:
        callee, count = operation.function, operation.count
        rest = list(operands if count is not None else operands[1:])
        carried, fixed = rest[: operation.carried], rest[operation.carried :]
        if count is not None and count <= _UNROLLED:
            for _ in range(count):
                carried = self.written_out(f, callee, *carried, *fixed)
            return carried
        stop = operands[0] if count is None else i64(count)
        with f.counted_loop(i64(0), stop) as loop:
            before = [loop.carry(value) for value in carried]
            for value, after in zip(before, self.written_out(f, callee, *before, *fixed), strict=True):
                loop.next(value, after)
        return [loop.result(value) for value in before]

    def _where(self, f: FunctionText, callee: Function, operands: Sequence[Value]) -> list[Value]:
        """A branch around it where no lane asks for it."""
        count = len(callee.results)
        condition, otherwise, passed = operands[0], operands[1 : 1 + count], operands[1 + count :]
        slow, after, before = f.label("where"), f.label("after"), f.current
        lanes = lane_count(condition.type)
        f.branch_if(f.reduce("or", condition), slow, after)
        f.begin(slow)
        if lanes == 1:
            result = self._called(f, callee, passed, "nounwind noinline")
        else:
            result = self._in_some_lanes(f, callee, condition, otherwise, passed)
        end = f.current
        f.branch(after)
        f.begin(after)
        results: list[Value] = []
        for value, changed in zip(otherwise, result, strict=True):
            phi = f.phi(value.type)
            phi.add(value, before)
            phi.add(changed, end)
            results.append(phi.value)
        return results

    def _in_some_lanes(
        self,
        f: FunctionText,
        callee: Function,
        condition: Value,
        otherwise: Sequence[Value],
        passed: Sequence[Value],
    ) -> list[Value]:
        """By way of memory, one lane after the other."""
        flags = _kept(f, f.cast("zext", condition, like(condition.type, "i8")))
        sources, targets = [_kept(f, value) for value in passed], [_kept(f, value) for value in otherwise]
        with f.counted_loop(i64(0), i64(lane_count(condition.type))) as loop:
            flag = f.load("i8", f.gep("i8", flags, loop.index))
            with f.when(f.icmp("ne", flag, zero("i8"))):
                active: list[Value] = []
                for value, source in zip(passed, sources, strict=True):
                    kind = element_type(value.type)
                    active.append(f.load(kind, f.gep(kind, source, loop.index)))
                result = self._called(f, callee, active, "nounwind noinline")
                for value, target in zip(result, targets, strict=True):
                    f.store(value, f.gep(value.type, target, loop.index))
        return [f.load(value.type, target) for value, target in zip(otherwise, targets, strict=True)]


def _kept(f: FunctionText, value: Value) -> Value:
    """The address of a copy in memory."""
    pointer = f.alloca(value.type)
    f.store(value, pointer)
    return pointer


def _returned(function: Function, lanes: int) -> str:
    kinds = [vector_type(lanes, register_type(dtype)) for dtype in function.result_types]
    return kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}"


def _packed(f: FunctionText, results: Sequence[Value]) -> Value:
    whole = Value(f"{{ {', '.join(one.type for one in results)} }}", "poison")
    for number, one in enumerate(results):
        whole = f.assign(whole.type, f"insertvalue {whole}, {one}, {number}")
    return whole


def _unfused(dtype: DType) -> Function:
    """What does a fused multiply-add for want of the instruction."""
    if dtype != F32:
        raise CodeGenerationError("fma of f64 needs a machine with the instruction")
    return fma_by_doubles_function()


def plain(f: FunctionText, function: Function, *arguments: Value) -> Value:
    """The result of a function that is made of primitives alone, where it is asked for."""
    lanes, values = lane_count(arguments[0].type), list[Value]()
    for one in function.body:
        operands = [values[argument] for argument in one.arguments]
        match one.operation:
            case Argument(number):
                values.append(arguments[number])
            case Number(bits):
                values.append(splat_literal_value(number_literal(one.dtype, bits), lanes))
            case Primitive(name):
                values.append(primitive(f, name, operands, function.body[one.arguments[0]].dtype, one.dtype))
            case _:
                raise AssertionError(f"{function.name} is not made of primitives alone")
    return values[function.results[0]]


# --- what a function is like


@cache
def _length(function: Function) -> int:
    """Instructions, with those of the functions it calls."""
    own = sum(not isinstance(one.operation, Argument | Number | Part) for one in function.body)
    return own + sum(map(_length, function.called()))


@cache
def _is_inlined(function: Function) -> bool:
    """Whether the optimiser writes it out where it is used: not what works on wide numbers, or calls rare code."""
    inner = with_callees(function)
    return not any(_is_wide(one.dtype) or isinstance(one.operation, Where) for each in inner for one in each.body)


def _is_wide(dtype: DType) -> bool:
    return dtype == F64 or dtype.size == 8


@cache
def _runs_alone(function: Function) -> bool:
    """Whether lanes would part ways: a loop as long as the data says, or of many repeats, or a lookup."""
    for one in function.body:
        match one.operation:
            case Lookup():
                return True
            case Repeat(_, count, _) if count is None or count > _UNROLLED:
                return True
            case Call(callee) | Repeat(callee, _, _) if _runs_alone(callee):
                return True
            case _:
                pass
    return False
