"""Starting, watching and ending the ranks of a job. Read first: `coordinator`, then `supervisor`.

In: a command and a number of ranks. Out: how each of them ended.
"""
