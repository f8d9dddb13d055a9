"""Which names are known where, what each stands for, and what is said about those that are not there.

In: names, in a scope. Out: what they stand for, or messages. Read first: `scope`, then `declarations` and `modules`.
"""
