"""One program on many tasks: in, an optimised graph and a deployment file; out, one graph for each role.

Read first: `deployment/model` (what a file says), then `replicate`, `shard`, `place` and `partition`, in the order in
which they run; `simulate` predicts a step on other numbers of ranks.
"""
