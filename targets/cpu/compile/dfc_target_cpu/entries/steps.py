"""Steps of an entry as the control flow of one native function.

Assumes a layout of registers from `lay_out` and launch names from `lower_program`. Guarantees that scalars whose
life stays in one function are machine registers (stack slots that LLVM promotes), and that a fault ends the function
with a result other than 0.
"""

from collections.abc import Callable, Sequence

from dfc.ir.dims import Dim, Symbol, dim, product
from dfc.kernels.form import Operand
from dfc.kernels.program import (
    Buffer,
    BufferRole,
    Check,
    Copy,
    For,
    HostCall,
    HostSite,
    If,
    Launch,
    Locked,
    Measure,
    Parallel,
    Step,
    While,
)
from dfc.kernels.programs.outline import Outlined
from dfc_driver_cpu.context import Context, offset_of
from dfc_runtime.formats.manifest import NATIVE_KINDS, RECORD_KINDS
from dfc_target_cpu.elementwise.accesses import EmissionSite
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan
from dfc_target_cpu.elementwise.stages import LoopCode
from dfc_target_cpu.elementwise.types import is_signed, memory_type
from dfc_target_cpu.entries.branches import RECORD, ParallelCode, call_of, is_vain
from dfc_target_cpu.entries.context_code import field_address, load_field, poll_now, poll_part
from dfc_target_cpu.entries.dims import DimCode, finish_prologue
from dfc_target_cpu.entries.endings import end, end_failed
from dfc_target_cpu.entries.faults import report_if
from dfc_target_cpu.entries.locks import give, take
from dfc_target_cpu.entries.native_calls import NativeCall
from dfc_target_cpu.entries.scope import EntryScope, Launchable
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64

ENTRY = (Parameter("ptr", "context"), Parameter("ptr", "slots"))


class StepCode:
    """One native function: `i64 (ptr context, ptr slots)`; of steps in a branch, with its record behind."""

    def __init__(
        self,
        scope: EntryScope,
        hint: str,
        linkage: str,
        frame_words: int,
        attributes: str = "nounwind",
        *,
        in_branch: bool = False,
    ) -> None:
        self.scope = scope
        self._frame_words = frame_words
        formals = (*ENTRY, RECORD) if in_branch else ENTRY
        self.f = scope.lowering.module.function(hint, "i64", formals, linkage=linkage, attributes=attributes)
        self.context, self.slots = self.f.arguments[:2]
        self._record = self.f.arguments[2] if in_branch else None
        self._measured = {symbol: number for number, (symbol, _) in enumerate(scope.entry.measured)}
        self.dims = DimCode(self.f, self._size, measured=frozenset(self._measured))
        self._addresses: dict[int, Value] = {}
        self._start = self.f.label("start")
        self._failed = self.f.label("failed")
        self._frame: Value | None = None
        self._bases: dict[str, Value] = {}
        self._spills: dict[int, Value] = {}
        self.f.begin(self._failed)
        self._is_whole = linkage == "external"
        if self._is_whole:
            end_failed(scope, self.f, self.context)
        self.f.ret(i64(1))
        self.f.begin(self._start)

    def finish(self) -> str:
        if self._is_whole:
            end(self.scope, self.f, self.context)
        self.f.ret(i64(0))
        finish_prologue(self.f, self._start)
        return self.scope.lowering.module.add(self.f)

    # --- where things are

    def _slot(self, number: int) -> Value:
        return self.f.gep("i64", self.slots, i64(number))

    def _size(self, symbol: Symbol) -> Value:
        entry = self.scope.entry
        first = len(entry.arguments) + len(entry.results)
        if symbol in self._measured:
            return self.f.load("i64", self._measured_slot(symbol))
        return self.f.load("i64", self._slot(first + entry.dims.index(symbol)))

    def _measured_slot(self, symbol: Symbol) -> Value:
        entry = self.scope.entry
        first = len(entry.arguments) + len(entry.results) + len(entry.dims) + 1
        return self._slot(first + self._measured[symbol])

    def address_of(self, buffer: int) -> Value:
        """The address of a buffer."""
        if buffer not in self._addresses:
            with self.dims.prologue():
                self._addresses[buffer] = self._find(buffer, self.scope.entry.buffers[buffer])
        return self._addresses[buffer]

    def _find(self, number: int, buffer: Buffer) -> Value:
        f, entry = self.f, self.scope.entry
        if buffer.role is BufferRole.REGISTER:
            if number not in self.scope.spilled:
                return f.alloca(memory_type(buffer.dtype), align=8)
            return f.gep("i8", self._base("scratch"), i64(self.scope.spilled[number]))
        if buffer.role is BufferRole.RESOURCE:
            number = self.scope.resources[buffer.resource]
            return f.load("ptr", f.gep("ptr", self._base("variables"), i64(number)))
        if buffer.role is BufferRole.CONSTANT:
            return f.gep("i8", self._base("constants"), i64(self.scope.constant_offsets[buffer.index]))
        if buffer.role is BufferRole.ARENA:
            return f.gep("i8", self._base("arena"), self.dims.value(buffer.offset))
        shift = len(entry.arguments) if buffer.role is BufferRole.RESULT else 0
        slot = self._slot(shift + buffer.index)
        return f.load("ptr", slot) if buffer.shape else slot

    def _base(self, memory: str) -> Value:
        """The address of the arena of the call, or of memory that the context knows, read once."""
        if memory not in self._bases:
            entry = self.scope.entry
            last = len(entry.arguments) + len(entry.results) + len(entry.dims)
            context = self.context if self._record is None else call_of(self.f, self._record)
            is_arena = memory == "arena"
            field = self.f.load("ptr", self._slot(last)) if is_arena else load_field(self.f, context, memory)
            self._bases[memory] = field
        return self._bases[memory]

    def _buffer(self, number: int) -> Buffer:
        return self.scope.entry.buffers[number]

    def _read(self, number: int) -> Value:
        """A scalar, as it lies in memory."""
        return self.f.load(memory_type(self._buffer(number).dtype), self.address_of(number))

    def _truth(self, number: int) -> Value:
        value = self._read(number)
        return self.f.icmp("ne", value, constant(value.type, 0))

    # --- steps

    def steps(self, steps: Sequence[Step | Outlined]) -> None:
        table: dict[type, Callable[..., None]] = {
            Launch: self._launch,
            Copy: self._copy,
            If: self._if,
            While: self._while,
            For: self._for,
            Check: self._check,
            Locked: self._locked,
            Measure: self._measure,
            HostCall: self._host_call,
            Outlined: self._outlined,
            Parallel: self._parallel,
        }
        for step in steps:
            if id(step) == self.scope.polling.first_silent:
                self.f.store(i64(1), field_address(self.f, Context, self.context, "committed"))
            table[type(step)](step)

    def _poll(self) -> None:
        """Leaves the call if it is to stop. A load and a branch; the run side sets the flag now and then."""
        f, module = self.f, self.scope.lowering.module
        context = self.context if self._record is None else call_of(f, self._record)
        attention = f.atomic_load("i64", field_address(f, Context, context, "attention"), "monotonic")
        with f.when(f.icmp("ne", attention, i64(0)), "asked"):
            ask = poll_now(module) if self._record is None else poll_part(module)
            stops = f.call(ask, "i64", [context])
            self._leave_if(f.icmp("ne", stops, i64(0)))
        if self._record is not None:
            self._leave_if(is_vain(f, self._record))

    def _outlined(self, step: Outlined) -> None:
        record = list[Value]() if self._record is None else [self._record]
        failed = self.f.call(step.function, "i64", [self.context, self.slots, *record])
        self._leave_if(self.f.icmp("ne", failed, i64(0)))

    def _parallel(self, step: Parallel) -> None:
        """The threads that a kernel takes are for whole branches, unless kernels are large at the sizes of the call."""
        low = self.scope.lowering
        branches = [one.function for branch in step.branches for one in branch if isinstance(one, Outlined)]
        code = ParallelCode(low.module, low.machine, branches, step.costs, self.scope.strands)
        apart = self.f.icmp("sle", self.dims.value(step.work), i64(step.most))
        failed = self.f.call(code.build(), "i64", [self.context, self.slots, apart])
        self._leave_if(self.f.icmp("ne", failed, i64(0)))

    def _leave_if(self, condition: Value) -> None:
        fine = self.f.label("fine")
        self.f.branch_if(condition, self._failed, fine)
        self.f.begin(fine)

    def _check(self, step: Check) -> None:
        bad = self.f.bit_xor(self._truth(step.condition), constant("i1", True))
        fine = report_if(self.scope.lowering.module, self.f, self.context, bad, step.fault, [])
        self.f.branch(self._failed)
        self.f.begin(fine)

    def _measure(self, step: Measure) -> None:
        """The value goes to its slot, where later formulas find it. Without a sign, negative ones are too large."""
        count, most = self._read(step.source), self.dims.value(step.most)
        bad = self.f.icmp("ugt", count, most)
        fine = report_if(self.scope.lowering.module, self.f, self.context, bad, step.fault, [count, most])
        self.f.branch(self._failed)
        self.f.begin(fine)
        self.f.store(count, self._measured_slot(step.symbol))

    def _locked(self, step: Locked) -> None:
        """Whoever fails inside gives the locks back on the way out."""
        outer = self._failed
        self._failed, after = self.f.label("failed.locked"), self.f.label("unlocked")
        self._each_lock(step, take)
        self.steps(step.body)
        self._each_lock(step, give)
        self.f.branch(after)
        self.f.begin(self._failed)
        self._each_lock(step, give)
        self.f.branch(outer)
        self._failed = outer
        self.f.begin(after)

    def _each_lock(self, step: Locked, change: Callable[..., str]) -> None:
        low = self.scope.lowering
        function = change(low.module, low.machine, exclusive=step.exclusive)
        table = load_field(self.f, self.context, "locks")
        for container in step.containers:
            lock = self.f.load("ptr", self.f.gep("ptr", table, i64(self.scope.containers.index(container))))
            self.f.call(function, "void", [self.context, lock])

    def _copy(self, step: Copy) -> None:
        source, target = self.address_of(step.source), self.address_of(step.target)
        buffer = self._buffer(step.source)
        if not buffer.shape:
            self.f.store(self._read(step.source), target)
        elif source != target:
            size = self.dims.value(product(buffer.shape) * dim(buffer.dtype.size))
            self.f.copy_memory(target, source, size)

    def _if(self, step: If) -> None:
        yes, no, after = (self.f.label(x) for x in ("then", "else", "endif"))
        self.f.branch_if(self._truth(step.condition), yes, no)
        for label, steps in ((yes, step.then), (no, step.otherwise)):
            self.f.begin(label)
            self.steps(steps)
            self.f.branch(after)
        self.f.begin(after)

    def _while(self, step: While) -> None:
        header, body, after = (self.f.label(x) for x in ("while", "do", "done"))
        self.f.branch(header)
        self.f.begin(header)
        self.steps(step.condition)
        self.f.branch_if(self._truth(step.test), body, after)
        self.f.begin(body)
        self._poll()
        self.steps(step.body)
        self.f.branch(header)
        self.f.begin(after)

    def _for(self, step: For) -> None:
        f, dtype = self.f, self._buffer(step.index).dtype
        header, body, after = (f.label(x) for x in ("for", "do", "done"))
        start, stop = self._read(step.start), self._read(step.stop)
        entry = f.current
        f.branch(header)
        f.begin(header)
        index = f.phi(start.type)
        index.add(start, entry)
        f.branch_if(f.icmp("slt" if is_signed(dtype) else "ult", index.value, stop), body, after)
        f.begin(body)
        self._poll()
        f.store(index.value, self.address_of(step.index))
        self.steps(step.body)
        index.add(f.add(index.value, constant(start.type, 1)), f.current)
        f.branch(header)
        f.begin(after)

    # --- launches

    def _launch(self, step: Launch) -> None:
        launchable = self.scope.launchables[step.kernel]
        if launchable.inline is not None:
            self._inline(step, launchable.inline)
        else:
            self._call(step, launchable)

    def _inline(self, step: Launch, plan: LoopPlan) -> None:
        low = self.scope.lowering
        bindings: dict[Symbol, Dim] = {Symbol(f"d{i}"): size for i, size in enumerate(step.sizes)}
        pointers = [self.address_of(buffer) for buffer in step.buffers]
        operands: tuple[Operand, ...] = plan.kernel.operands
        dims = self.dims.bound(bindings)
        site = EmissionSite(
            low.module, low.machine, low.functions, self.f, dims, self.context, operands, pointers, self._failed
        )
        LoopCode(site, plan).run((i64(0), i64(1)), (i64(0), i64(1)))

    def _call(self, step: Launch, launchable: Launchable) -> None:
        """Fills the frame, runs, takes scalars out again."""
        f = self.f
        polling = self.scope.polling
        asks = id(step) not in polling.silent
        if asks:
            self._poll()
        changes = any(self._buffer(step.buffers[each]).role is BufferRole.RESOURCE for each in launchable.written)
        if asks and changes:  # a kernel that changes state is not left in its midst
            f.store(i64(1), field_address(f, Context, self.context, "committed"))
        pointers = [self._passed(position, number) for position, number in enumerate(step.buffers)]
        self._fill_frame([*pointers, *(self.dims.value(size) for size in step.sizes)])
        f.call(launchable.function, "void", [self.context, self._frame_slot(0)])
        for position, number in enumerate(step.buffers):
            if position in launchable.written:
                self._take_back(pointers[position], number)
        if asks and changes and id(step) != polling.first_silent:
            f.store(i64(0), field_address(f, Context, self.context, "committed"))
        elif asks and not changes:
            self._leave_if(f.icmp("ne", load_field(f, self.context, "leave"), i64(0)))
        if launchable.faults:
            self._leave_if(f.icmp("ne", load_field(f, self.context, "error_site"), i64(0)))

    def _host_call(self, step: HostCall) -> None:
        """The frame holds a word that the run side clears when all went well, the addresses of inputs and outputs, and
        those of their extents that are no plain numbers. Queues and turns need none."""
        program, low = self.scope.program, self.scope.lowering
        site = program.sites[step.site]
        pointers = [self._passed(position, number) for position, number in enumerate((*step.inputs, *step.outputs))]
        if site.kind in NATIVE_KINDS:
            common = (low.module, low.machine, self.f, self.context, self.dims)
            NativeCall(*common, program, site, pointers, self._leave_if).write()
        else:
            self._ask(step.site, site, pointers)
        for pointer, number in zip(pointers[len(step.inputs) :], step.outputs, strict=True):
            self._take_back(pointer, number)

    def _ask(self, number: int, site: HostSite, pointers: Sequence[Value]) -> None:
        """Has the run side answer, unless code does: of what is about records, it nearly always can."""
        f, scope, answered = self.f, self.scope, i64(0)
        if site.kind in RECORD_KINDS:
            from dfc_target_cpu.entries.records.requests import RecordCall  # most programs read none

            common = (scope.lowering.module, scope.lowering.machine, f, self.context, self.dims)
            answered = RecordCall(*common, scope.program, site, pointers).write()
        f.store(i64(0), self._frame_slot(0))
        with f.when(f.icmp("eq", answered, i64(0)), "asks"):
            self._fill_frame([i64(1), *pointers, *(self.dims.value(size) for size in site.varying_extents)])
            end(scope, f, self.context)  # others compute while Python does
            host = load_field(f, self.context, "host_call")
            f.call_pointer(host, "void", [i64(number), self._frame_slot(0)])
        self._leave_if(f.icmp("ne", f.load("i64", self._frame_slot(0)), i64(0)))

    def _fill_frame(self, words: Sequence[Value]) -> None:
        for position, word in enumerate(words):
            self.f.store(word, self._frame_slot(position))

    def _take_back(self, pointer: Value, number: int) -> None:
        """Puts a scalar that was written through an address into its register."""
        if self._in_register(number):
            kind = memory_type(self._buffer(number).dtype)
            self.f.store(self.f.load(kind, pointer), self.address_of(number))

    def _in_register(self, number: int) -> bool:
        return self._buffer(number).role is BufferRole.REGISTER and number not in self.scope.spilled

    def _passed(self, position: int, number: int) -> Value:
        """The address a kernel is given: of a copy for scalars in registers, so that these stay in registers."""
        if not self._in_register(number):
            return self.address_of(number)
        if position not in self._spills:
            self._spills[position] = self.f.alloca("i64", align=8)
        self.f.store(self._read(number), self._spills[position])
        return self._spills[position]

    def _frame_slot(self, position: int) -> Value:
        if self._frame is None:
            self._frame = self.f.alloca("i64", count=self._frame_words, align=8)
        return self.f.gep("i64", self._frame, i64(position))

    def clear_error(self) -> None:
        """At the start of a call: nothing has failed yet, and nothing is changed."""
        site = self.f.gep("i8", self.context, i64(offset_of(Context, "error_site")))
        self.f.store(i64(0), site)
        self.f.store(i64(0), field_address(self.f, Context, self.context, "committed"))
