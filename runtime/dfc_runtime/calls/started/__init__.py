"""Calls that are started and waited for later: futures, threads for them, and the order that their state asks for.

Read `starting` first: what its callers get. `ordering` says who waits for whom, `workers` has the threads.

In: calls with their arguments. Out: futures.
"""
