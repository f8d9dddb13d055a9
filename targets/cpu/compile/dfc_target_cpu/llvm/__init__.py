"""LLVM modules as text: values, instructions, blocks.

In: calls of a builder. Out: LLVM text. Read first: `text`, then `function` and `values`.
"""
