"""Figures on a GPU: `python -m bench.gpu`, and `python -m bench.gpu.products`.

In: names of cases, a device. Out: lines of text, and all times as JSON. Read `cases` first: it takes turns with
`peers` on the same `inputs`; `products` compares the kernels of products with cuBLASLt.
"""
