"""pipelines: which of a program's queues, runners and state are on one task, and which cannot be elsewhere.

In: a graph as the front end makes it. Out: the pipelines of a program; messages about what is refused. Read first:
`connected`.
"""
