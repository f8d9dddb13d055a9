"""The names of kernel text (`dfc.lower.threads.text`) on a device of CUDA.

In: primitives and kernel functions. Out: functions of numba.cuda. Read first: `device`, which has all names;
`primitive_code` and `function_code` make LLVM code, `text_functions` has the grammar of kernel text.
"""
