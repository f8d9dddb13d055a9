"""Several ranks: messages, steps that fetch, training that is replicated.

In: `mpiexec`, and a network file for predictions. Out: lines of text or JSON. `on_ranks` starts for `bench` what runs
under mpiexec: `network`, `transfers`, `sharded`, `data_parallel` (`ddp` is torch's). Read `transfers` first.
"""
