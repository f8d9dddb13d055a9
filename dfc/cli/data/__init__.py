"""What `dfc data` does: sources of all kinds come in as examples, files of records are summed up and told.

`sources` says by which kind a source is read, `arrays`, `tables`, `texts`, `archives`, `images` and `synthetic` read
one kind each, `summary` adds up what is in records, `printing` tells it.
"""
