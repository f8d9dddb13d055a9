"""The one failure of code generation: always a fault of the compiler, never of its user."""


class CodeGenerationError(RuntimeError):
    """The generated code is wrong (rejected by LLVM, or not linkable); the message says where."""
