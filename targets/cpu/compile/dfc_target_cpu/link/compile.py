"""LLVM text to object bytes.

Assumes text that is already vectorised and fused: the optimiser cleans up addresses, hoists invariants and inlines,
it does not look for vectors. Guarantees that unsound text is refused with `CodeGenerationError` before code generation
starts (LLVM would end the process), and equal bytes for equal text.
"""

import functools

import llvmlite
import llvmlite.binding as llvm

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.machine import Machine


def compilers() -> dict[str, str]:
    """The tools behind `compile_object`, with their versions."""
    return {"LLVM": ".".join(map(str, llvm.llvm_version_info)), "llvmlite": llvmlite.__version__}


def compile_object(text: str, machine: Machine, *, speed_level: int = 2) -> bytes:
    """The ELF object of a module. `speed_level` 0 skips the optimiser."""
    target = _target_machine(machine)
    module = _parsed(text)
    if speed_level > 0:
        _optimise(module, target, speed_level)
    return target.emit_object(module)


def assembly(text: str, machine: Machine, *, speed_level: int = 2) -> str:
    """What `compile_object` makes, for people to read."""
    target = _target_machine(machine)
    module = _parsed(text)
    if speed_level > 0:
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
def _target_machine(machine: Machine) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.llvm_cpu, features=machine.llvm_features, opt=2, reloc="pic", codemodel="small"
    )
