"""Asynchronous replicas: each takes steps at its own pace, and the owner of the variables updates them one by one.

In: calls of an entry that is replicated so. Out: updates of the owner's state, and the order in which they were made.
Read first: `updates`, then `turns` (whose turn it is); `update_log` keeps the order for whoever calls.
"""
