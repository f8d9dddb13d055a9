"""LLVM modules as text: values, instructions, blocks."""
