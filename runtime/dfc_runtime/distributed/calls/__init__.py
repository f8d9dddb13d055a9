"""Calls on many ranks: who calls, who follows, what travels. Read first: `client`, then `follower`.

In: a call on rank 0. Out: its results, and new state on all ranks.
"""
