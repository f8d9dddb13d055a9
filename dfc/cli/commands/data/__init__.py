"""The commands of `dfc data`: arguments come in, files or lines go out; the work is in `dfc.cli.data`.

Read first: `make_command`.
"""
