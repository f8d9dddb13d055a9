"""What a start does without or puts off until it is needed: code of data classes (`dataclasses`), modules (`modules`),
the search for plug-ins (`plug_ins`) and the collection of garbage (`collection`). Many a command is over before that.
Knows nothing of programs; everything may import it.

In: declarations and names. Out: the same, ready when first used. Read first: `modules`.
"""
