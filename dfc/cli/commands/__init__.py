"""One module a command; each offers `command`.

In: arguments. Out: an exit code, and what the command prints. Read first: `compile_command`.
"""
