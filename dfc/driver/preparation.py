"""What a target does while a program is read, begun before the compiler itself is imported: that takes half a second,
in which a process that compiles kernels for GPUs can load. Imports nothing of the stages.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from dfc.bundle.target import preparing
from dfc.diagnostics.source import SourceFile
from dfc.ir.options import CompileOptions


def prepared(source: SourceFile, options: CompileOptions, *, is_deployed: bool) -> AbstractContextManager[None]:
    """To be entered before `api.compile_prepared`, and left behind it. Ranks choose targets of their own."""
    if is_deployed or options.target == CompileOptions().target:  # the usual one has nothing to get ready
        return nullcontext()
    identity = "\n".join((source.text, repr(options.settings), str(options.check_finite), repr(options.entries)))
    return preparing(options.target, identity, options.target_options)
