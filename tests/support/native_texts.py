"""Kernel texts as machine code of this host, made of the very LLVM code that numba makes device code of.

What a device has and a processor has not (where a thread is, barriers, exchanges between lanes) are calls back into
`tests.support.cuda_simulator.lane_threads`, whose lanes take turns. Everything else runs as it was compiled:
control flow, types, arithmetic, memory, calls of kernel functions. So a difference to the text that runs as
Python is one between what the text says and what numba was told.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.lower.threads.schedule import SIMULATED, ZEROED, Schedule
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_target_cuda.code.compile import key_of
from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.cuda_simulator import simulation
from tests.support.cuda_simulator.lane_threads import at_once, in_threads
from tests.support.kernel_interpreter import Interpreter
from tests.support.kernel_points import Failed
from tests.support.kernel_texts import blocks_of, memory, run_text

Array = np.ndarray
llvm: Any = import_module("llvmlite.binding")  # which does not describe its types

ARCHITECTURE = (8, 0)

_POINTER = re.compile(r"(?:<\d+ x \w+>|\[\d+ x \w+\]|\b[a-z]\w*)(?: addrspace\(\d\))?\*+")
_NAME = re.compile(r'@"([\w.$]+)"')
_KERNEL = re.compile(r"(?<=^define i32 @)[\w.$]+", re.M)
_NAMES = {
    **{f"llvm.nvvm.{name}.{short}": f"llvm.{same}.{kind}" for short, kind in (("f", "f32"), ("d", "f64"))
       for name, same in (("fabs", "fabs"), ("round", "nearbyint"), ("sqrt.rn", "sqrt"))},
    **{f"llvm.nvvm.read.ptx.sreg.{name}": f"host_{name}" for name in ("tid.x", "ctaid.x", "ntid.x", "nctaid.x")},
    **{f"llvm.nvvm.{name}": f"host_{name}" for name in ("barrier0", "barrier0.or", "membar.gl", "bar.warp.sync")},
    **{f"llvm.nvvm.shfl.sync.{name}.i32": f"host_{name}" for name in ("bfly", "idx")},
    "llvm.nvvm.mulhi.ull": "host_mulhi",
}  # fmt: skip
_HIGH = """
define linkonce_odr i64 @host_mulhi(i64 %a, i64 %b) {
  %x = zext i64 %a to i128
  %y = zext i64 %b to i128
  %p = mul i128 %x, %y
  %h = lshr i128 %p, 64
  %r = trunc i128 %h to i64
  ret i64 %r
}
"""
_warp = 1


def _device_functions() -> Any:
    """What loads numba, once there is a text to compile."""
    return import_module("dfc_target_cuda.code.device_functions")


def host_module(key: TextKey) -> str:
    """The device's module, the kernel and the functions that it calls, in the words of this host's LLVM."""
    python, signature = _device_functions().kernel_function(key)
    kernel = _host_words(_lowered(python, signature))
    (symbol,) = _KERNEL.findall(kernel)
    return kernel.replace(f"@{symbol}(", "@kernel(")


def _lowered(python: Any, signature: Any) -> str:
    """The LLVM code that `numba.cuda.compile` hands to libNVVM."""
    compiler: Any = import_module("numba.cuda.compiler")
    compiled = compiler.compile_cuda(python, signature.return_type, signature.args, cc=ARCHITECTURE, abi="numba")
    (text,) = compiled.library.llvm_strs
    return text


def _host_words(text: str) -> str:
    """Pointers without types, one space of addresses."""
    text = text[: text.index("!nvvmir.version")]
    text = re.sub(r"^target .*\n|, !prof !\d+", "", text, flags=re.M)
    text = _NAME.sub(r"@\1", text)
    text = _POINTER.sub("ptr", text).replace("addrspacecast", "bitcast")
    text = re.sub(r" addrspace\(\d\)", "", text)
    text = text.replace("internal  ", "internal ")
    declared = re.sub(r"^declare i64 @llvm\.nvvm\.mulhi\.ull.*\n", "", text, flags=re.M)
    for name, here in _NAMES.items():
        declared = re.sub(rf"@{re.escape(name)}(?=\()", f"@{here}", declared)
    return declared + (_HIGH if "@host_mulhi" in declared else "")


@lru_cache(maxsize=12)  # each has code and an engine of its own
def native_text(key: TextKey, parameters: int) -> NativeText:
    return NativeText(key, parameters)


class NativeText:
    """One kernel as code of this host. Called with addresses, and numbers of 64 bits."""

    def __init__(self, key: TextKey, parameters: int) -> None:
        parsed = llvm.parse_assembly(host_module(key))
        parsed.verify()
        self._engine = _engine(parsed)
        address = self._engine.get_function_address("kernel")
        self._result = ctypes.c_void_p()  # numba's kernels have a result, which is nothing
        self._code = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * parameters)(address)

    def lane(self, *arguments: int) -> None:
        """As one lane, alone or of `in_threads`."""
        status = self._code(ctypes.addressof(self._result), *arguments)
        assert status == 0, f"numba's status is {status}"


def _engine(parsed: Any) -> Any:
    _callbacks()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


def _exchanged(value: Any, source: Callable[[int], int]) -> Any:
    return at_once(simulation.exchange)(value, _warp, source)


@cache
def _callbacks() -> list[Any]:
    """What the code calls, by name; kept for the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    current, any_of_block = simulation.here(), at_once(simulation.barrier_any)
    number = ctypes.c_int32
    callbacks: list[tuple[str, list[Any], Any, Callable[..., Any]]] = [
        ("host_tid.x", [], number, lambda: current["thread"]()),
        ("host_ctaid.x", [], number, lambda: current["block_index"]()),
        ("host_ntid.x", [], number, lambda: current["block_size"]()),
        ("host_nctaid.x", [], number, lambda: current["block_count"]()),
        ("host_barrier0", [], None, at_once(simulation.barrier)),
        ("host_barrier0.or", [number], number, lambda flag: int(any_of_block(flag != 0))),
        ("host_membar.gl", [], None, lambda: None),
        ("host_bar.warp.sync", [number], None, lambda _: _exchanged(None, lambda lane: lane)),
        ("host_bfly", [number] * 4, number, lambda _, x, mask, __: _exchanged(x, lambda lane: lane ^ mask)),
        ("host_idx", [number] * 4, number, lambda _, x, lane, __: _exchanged(x, lambda _: lane)),
    ]  # fmt: skip
    kept: list[Any] = []
    for name, parameters, result, function in callbacks:
        kept.append(ctypes.CFUNCTYPE(result, *parameters)(function))
        llvm.add_symbol(name, ctypes.cast(kept[-1], ctypes.c_void_p).value)
    return kept


def run_native(text: KernelText, arrays: Sequence[Array], sizes: Sequence[int], schedule: Schedule) -> Array:
    """Like `kernel_texts.run_text`: runs a kernel once, in place; gives the error block."""
    global _warp
    _warp = schedule.warp
    known = {Symbol(f"d{n}"): size for n, size in enumerate(sizes)}
    workspace = np.full(text.workspace.evaluate(known) + 16, 0xCB, np.uint8)
    workspace[:ZEROED] = 0
    error = np.zeros(3, np.int64)
    held = [memory(array) for array in arrays]
    arguments = [one.ctypes.data for one in held] + [int(size) for size in sizes[: text.sizes]]
    arguments += [workspace.ctypes.data] if text.workspace.constant != 0 else []
    arguments.append(error.ctypes.data)
    blocks = blocks_of(text, known)
    if blocks > 0:
        in_threads(native_text(key_of(text), len(arguments)).lane, blocks, text.geometry.threads, arguments)
    return error


def same_bits(actual: Array, expected: Array) -> bool:
    """NaN is NaN, whatever its bits."""
    actual, expected = actual.reshape(-1), expected.reshape(-1)
    bits = f"u{actual.itemsize}"
    differ = actual.view(bits) != expected.view(bits)
    if actual.dtype.kind in "iub":
        return bool(not differ.any())
    x, y = (one.astype(np.float64) for one in (actual, expected))
    return bool(not (differ & ~(np.isnan(x) & np.isnan(y))).any())


class NativeInterpreter(Interpreter):
    """Runs kernels by their code, and compares each launch with the text that runs as Python, to the bit. `lines` of
    text are compiled, at least one kernel; what comes behind those runs as Python alone."""

    schedule = SIMULATED
    lines: float = 40

    def launch(self, step: Any) -> None:
        kernel = self.program.kernels[step.kernel]
        sizes = [size.evaluate(self.sizes) for size in step.sizes]
        arrays = [np.asarray(self.array(number)) for number in step.buffers]
        text = write_kernel(kernel, f"k{step.kernel}", self.schedule, guarded=True)
        expected_arrays = [array.copy() for array in arrays]
        expected_error = run_text(text, expected_arrays, sizes, self.schedule)
        run = run_native if self.lines > 0 else run_text
        self.lines -= text.source.count("\n")
        error = run(text, arrays, sizes, self.schedule)
        assert error.tolist() == expected_error.tolist(), text.source
        for number, (actual, expected) in enumerate(zip(arrays, expected_arrays, strict=True)):
            assert same_bits(actual, expected), f"operand {number}\n{text.source}\n{sizes}\n{actual}\n{expected}"
        if error[0]:
            raise Failed(int(error[0]) - 1)
