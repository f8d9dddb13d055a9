"""Timings beside peers: `python -m bench [CASE ...]`, or `make bench`.

`__main__` asks, `suite` runs a case: dfc and one peer at a time in processes of their own (`contestant`, `worker`), in
turns, so that a drift of the machine's speed meets both alike. `cases/` says what is computed, `peers/` how each system
does it, `limits/` what the machine can do at most, `report/` what follows from the records; `environments` installs
peers, `results` compares what they compute. Arrays are float32.

Beside that: `figures` are no ratios (compile time, loading, ranks); `gpu` and `gpu_products` measure on a GPU;
`cpu_kernels` measures the CPU target's own kernels without a program around them.
"""
