"""The handlers of what native code asks the run side for: texts, the clock, checkpoints, records, images.

In: requests with their operands, as `calls.hosts` hands them over. Out: what they are answered with. Read first:
`answers`, then `readers`; `image_requests` and `decoders` are for programs that read images.
"""
