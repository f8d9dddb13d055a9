"""Sizes, as ops and those who rewrite graphs ask for them: when two are equal (`equality`, to be read first), what is
checked of them while an entry runs (`checks`), and what the shapes of feeds say of symbols (`of_feeds`).

In: sizes and nodes. Out: answers, and checks as nodes.
"""
