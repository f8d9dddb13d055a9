"""Kernels as text in the names of a prelude that exists for devices and for the host. Read first: `write_kernel`.

In: kernels. Out: texts, and the layout of each launch.
"""
