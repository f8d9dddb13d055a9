"""What a loaded program has compiled while it runs.

In: the texts that its bundle carries (`origin`), and what is asked for. Out: functions that work on the state of the
program (`partial`), and longer programs (`extension`). Imports the compiler by name, and only when asked. Read
`partial` first.
"""
