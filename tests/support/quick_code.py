"""Native code made in a quarter of the time, for tests in which it is only a means.

LLVM takes a third of the whole suite's time, most of it to choose instructions and registers. Here it does so at its
lowest level, and as a rule without the passes before it, which would take as long. The text that it gets is the same,
and no level may change a bit of what floating-point instructions compute; code is larger and slower. Tests of the
machine code itself, of products and windows without another reference, of what `bench` prints, and all processes that
tests start have that of the product; the gate runs the rest with it too (`tests.gate.sweeps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

import llvmlite.binding as llvm

from dfc.bundle.disk_cache import digest
from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.link import objects
from dfc_target_cpu.machine import Machine

_MEANS = (
    *("dfc/", "mpi/", "runtime/", "samples/", "simulated/", "targets/cuda/"),
    *("bench/data/", "bench/test_programs.py", "docs/test_documents.py"),
)
_BYTES = ("dfc/bundle/test_writing.py", "dfc/cli/commands/test_compile_command.py")
"""But these compare bundles with those of other processes."""
_SELECTED = ("targets/cpu/test_", "targets/cpu/compile/entries/")
_SELECTED_FILES = tuple(
    f"targets/cpu/compile/{name}.py"
    for name in (
        *("elementwise/test_columns", "elementwise/test_kernels", "elementwise/test_loop_schedule"),
        *("elementwise/test_reductions", "elementwise/test_scans", "product/test_contraction", "product/test_panels"),
        *("product/test_row_band", "product/test_row_blocks", "routines/test_routines"),
        *("windows/test_direct", "windows/test_winograd"),
    )
)
_FOREIGN = ("targets/cpu/test_foreign_code.py",)
"""But for other processors LLVM has another way to choose them."""


def is_quick(name: str) -> bool:
    """Whether native code is only a means in the tests of a file, given below `tests/`."""
    return name.startswith(_MEANS) and name not in _BYTES


def is_selected_quickly(name: str) -> bool:
    """Whether they are tests of what the target writes and what LLVM's passes make of it, for which only the choice of
    instructions is a means."""
    return (name.startswith(_SELECTED) or name in _SELECTED_FILES) and name not in _FOREIGN


@contextmanager
def quick_code(*, optimised: bool = False) -> Iterator[None]:
    """What is compiled within is kept apart from what is compiled without. `optimised`: with the passes before. Within
    the same again nothing changes, so that files share what they compile."""
    mark = "quick, optimised" if optimised else "quick"
    identity = digest(compiler.identity(), mark)
    if not optimised and compiler._optimise is _leave:
        yield
        return
    passes = compiler._optimise if optimised else _leave
    changes = {"_target_machine": _machine, "_optimise": passes, "identity": lambda: identity}
    with mock.patch.multiple(compiler, **changes):
        objects.KEPT.clear()
        yield
    objects.KEPT.clear()


@cache
def _machine(machine: Machine, *, is_written_out: bool) -> llvm.TargetMachine:
    """Instructions are chosen quickly, whether or not the text `is_written_out`."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(machine.triple)
    names = {"cpu": machine.llvm_cpu, "features": machine.llvm_features}
    return target.create_target_machine(**names, opt=0, reloc="pic", codemodel="small")


def _leave(_module: llvm.ModuleRef, _target: llvm.TargetMachine, _speed_level: int) -> None:
    """The text as it is."""
