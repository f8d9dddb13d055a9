"""What `dfc data` does: sources of all kinds become examples, files of records are summed up and shown.

`sources` says by which kind a source is read, `arrays`, `tables`, `texts`, `archives`, `images` and `synthetic` read
one kind each, `summary` adds up what is in records, `printing` shows it.

In: paths and arguments. Out: files of records, tables and JSON. Read first: `sources`, then `examples`.
"""
