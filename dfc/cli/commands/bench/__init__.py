"""The commands of `dfc bench`.

In: arguments. Out: a table or JSON. Read first: `cnn_command`, whose work is in `dfc.cli.networks`.
"""
