"""From a program to its plan, and what is said of it to people. Read first: `plan`.

In: a scheduled program. Out: a `dfc_runtime.plans` plan, and lines about it.
"""
