"""What `dfc data` does: sources of all kinds become examples, files of records are summed up and shown.

`sources` says by which kind a source is read, `arrays`, `columns`, `tables`, `texts`, `archives`, `images` and
`synthetic` read one kind each, `summary` adds up what is in records, `printing` shows it. `content_kinds` says what is
in files that programs read as they are (`contents`, `array_contents`, `column_contents`).

In: paths and arguments. Out: files of records, tables and JSON. Read first: `sources`, then `examples`.
"""
