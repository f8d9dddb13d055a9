"""What a loaded program asks the compiler for, which the run side finds by name where it is installed.

In: the texts, settings and target that a bundle carries. Out: bundles of parts of entries (`partial`), of the program
with further declarations (`extension`) or with checks (`nonfinite`), and where a value that is not finite comes from.
Read `partial` first.
"""
