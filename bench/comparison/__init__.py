"""Systems in turns on one case.

In: a case of `cases/` and the systems of `peers/`. Out: a record of times, errors and reasons. Read `suite` first: it
starts a process for dfc and one for a peer (`contestant`, and `worker` inside of it) in the interpreters of
`environments`; `results` compares what they compute, `rates` is for programs that time themselves.
"""
