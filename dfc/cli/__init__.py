"""The command line: argument parsing and printing only.

In: arguments of a command. Out: lines, files and an exit code. Read first: `main`, then the command in `commands`.
"""
