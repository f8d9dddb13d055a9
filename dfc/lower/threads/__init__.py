"""Layouts of kernels on machines of threads in blocks: which thread does what, as data that writers of code read.

In: kernels of `dfc.kernels.form`, and a `Schedule` of the machine. Out: a layout of each with the geometry of its
launches and the bytes of its workspace. `text` writes what a thread does in each layout. Read first: `layouts`, then
`schedule` and `maps`.
"""
