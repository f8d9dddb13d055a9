"""Programs on many ranks: who starts them and watches over them, the process of one rank, and which options they take.

Supervisor: `launch` starts ranks, ends them together and starts them again. Rank: `process`. Read `launch` first.

In: a command and a number of ranks. Out: one exit code for all of them.
"""
