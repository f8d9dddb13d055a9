"""The passes of numba that kernel text needs: half of numba's time went into those that find nothing in it.

Kernel text has no closures, no contexts, no exceptions and nothing to inline, its constants are typed where they stand,
and its names have one type each, so that nothing has to be split for inference; what NVVM makes registers of is the
same. Assumes functions of the grammar of `prelude/text_functions`. Guarantees the instructions that all passes give.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NOT_NEEDED = frozenset(
    {
        *("with_lifting", "inline_closure_likes", "make_function_op_code_to_jit_function", "Rewrite dynamic raises"),
        *("inline_inlinables", "inline_overloads", "find_literally", "literal_unroll", "LiteralPropagation"),
        *("rewrite_semantic_constants", "dead_branch_prune", "generic_rewrites", "nopython_rewrites"),
        *("reconstruct_ssa", "strip_phis"),
    }
)
"""By numba's names; another version's passes of other names run."""


def install() -> None:
    """For all that this process compiles by `cuda.compile`, which takes no pipeline as an argument. Once a process."""
    compiler: Any = import_module("numba.cuda.compiler")
    compiler.CUDACompiler = kernel_compiler(compiler.CUDACompiler)


def kernel_compiler(compiler: Any) -> Any:
    """The compiler class, but for these passes: numba's way of a pipeline of one's own."""
    pass_manager: Any = import_module("numba.cuda.core.compiler_machinery").PassManager

    def define_pipelines(self: Any) -> list[Any]:
        pipelines: list[Any] = []
        for whole in compiler.define_pipelines(self):
            kept = pass_manager(whole.pipeline_name)
            kept.passes = [(one, reason) for one, reason in whole.passes if one.name() not in NOT_NEEDED]
            kept.finalize()
            pipelines.append(kept)
        return pipelines

    return type("KernelCompiler", (compiler,), {"define_pipelines": define_pipelines})
