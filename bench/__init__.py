"""Timings beside peers: `python -m bench [CASE ...]`, or `make bench`.

In: names of cases, interpreters of peers. Out: a table, a chart, JSON. Read `comparison` first: dfc and one peer at a
time in processes of their own, in turns, so that a drift of the machine's speed meets both alike. `cases/` says what
is computed, `peers/` how each system does it, `limits/` what the machine can do at most, `report/` what follows from
the records. Arrays are float32.

Beside that: `alone/` has figures that are no ratios (compile time, loading, kernels by themselves), `data/` input
pipelines, `ranks/` what several ranks take, `gpu/` measures on a GPU. `programs/` has the programs of all.
"""
