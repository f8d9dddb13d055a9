"""Deployment files: which tasks there are and what runs where. Everything about a program's *meaning* is elsewhere.

In: a deployment file, and a graph to resolve it against. Out: for each state and value a constraint, with its lines.
Read first: `model`, then `syntax.parse` and `resolve`.
"""
