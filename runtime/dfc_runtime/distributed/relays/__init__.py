"""Calls that ranks pass on along trees, so that no rank has to do with more than a few others for one call.

In: the parts of an entry, and a call. Out: who sends it to whom, and who says to whom that it is over. Read first:
`call_tree` (the plan), then `answers` (what rank 0 waits for), `relay` (what the others do).
"""
