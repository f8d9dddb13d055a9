"""Parquet and Arrow files as packed records, by the library pyarrow, which only programs that read such files need.

In come paths and the fields that a reader declares, out come records of these columns. `parquet` and `ipc` (with
`messages`) say which groups of rows a file has and read one of them; `groups` is what both share: the groups that are
kept in memory, and rows of them as packed records; `columns` says which types of columns a field can have, and makes
numbers and strings of them; `library` asks for pyarrow. Read `groups` first.
"""
