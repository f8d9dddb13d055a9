"""The systems: dfc, its peers, and the limits of the machine; how each is started, and how each computes a case.

In: a case and its data. Out: a `Prepared`: a call to time, and results to compare. Read `prepared.py` and `registry.py`
first. A module of a system is imported in a process of its own, in an environment that has the system; the others
are not imported there.
"""
