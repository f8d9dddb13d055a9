"""LLVM text to object bytes.

Assumes text that is already vectorised and fused: the optimiser cleans up addresses, hoists invariants and inlines,
it does not look for vectors. Guarantees that unsound text is refused with `CodeGenerationError` before code generation
starts (LLVM would end the process), and equal bytes for equal text, machine and speed level.
"""

import functools
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from dfc.bundle.disk_cache import digest, file_identity
from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.machine import Machine

OPTIMISED, PLAIN, WRITTEN_OUT = 2, 0, -1
"""Speed levels: what the optimiser cleans up; text so plain that it needs none, for code of the same speed; text that
is long and runs seldom, so that the code generator looks at it once only: a quarter of the time or less."""

_LIBRARY = file_identity(str(Path(llvm.__file__).with_name("libllvmlite.so")))
_SOURCE = Path(__file__).read_bytes() if Path(__file__).is_file() else b""
"""As they are when they are loaded: what lies on the disk later may be something else."""


def compilers() -> dict[str, str]:
    """The tools behind `compile_object`, with their versions."""
    return {"LLVM": ".".join(map(str, llvm.llvm_version_info)), "llvmlite": llvmlite.__version__}


@functools.cache
def identity() -> str:
    """What tells the code of this compiler from that of every other; empty where that is not known."""
    if not (_LIBRARY and _SOURCE):
        return ""
    versions = [f"{tool} {version}" for tool, version in compilers().items()]
    return digest(_LIBRARY, *_linked_libraries(), *versions, _SOURCE)


def _linked_libraries() -> list[str]:
    """LLVM itself, where llvmlite has it as a library of its own."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libLLVM" in line}
    return [file_identity(path) for path in sorted(paths)]


def compile_object(text: str, machine: Machine, *, speed_level: int = OPTIMISED) -> bytes:
    """The ELF object of a module."""
    target = _target_machine(machine, is_written_out=speed_level == WRITTEN_OUT)
    module = _parsed(text)
    if speed_level > PLAIN:
        _optimise(module, target, speed_level)
    return target.emit_object(module)


def assembly(text: str, machine: Machine, *, speed_level: int = OPTIMISED) -> str:
    """What `compile_object` makes, for people to read."""
    target = _target_machine(machine, is_written_out=speed_level == WRITTEN_OUT)
    module = _parsed(text)
    if speed_level > PLAIN:
        _optimise(module, target, speed_level)
    return target.emit_assembly(module)


def _parsed(text: str) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM refuses the generated code: {error}") from error
    return module


def _optimise(module: llvm.ModuleRef, target: llvm.TargetMachine, speed_level: int) -> None:
    """The few passes that matter to text whose loops are already in shape; what is invariant in a loop is hoisted when
    code is generated. The standard pipelines take five times as long, for code of the same speed."""
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=speed_level))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    passes.add_new_gvn_pass()
    passes.add_dead_code_elimination_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


@functools.cache
def _target_machine(machine: Machine, *, is_written_out: bool) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(machine.triple)
    effort = 0 if is_written_out else 2
    return target.create_target_machine(
        cpu=machine.llvm_cpu, features=machine.llvm_features, opt=effort, reloc="pic", codemodel="small"
    )
