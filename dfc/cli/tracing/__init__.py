"""What `dfc trace` says of a file that `--trace` wrote: in, that file; out, tables or one JSON object.

Read first: `traces` (the file, ranks, the lines that cost most), then `pipelines` (stages, queues) and `schedules`.
"""
