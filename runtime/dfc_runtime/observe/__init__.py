"""What a run says of itself: summaries, traces, measured kernels, checks for finite values, prints.

In: what native code reports while it runs. Out: files and lines for people and tools. Read first: `tracing`, then
`summaries`.
"""
