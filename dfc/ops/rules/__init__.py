"""What passes have to know of an op, as functions of its record.

In comes a node, and what a pass knows of its operands (how they lie on ranks, how they grow with the batch, where they
are not zero); out comes the same of its results. Each kind of rule has a module here with the values that it is about
and what rules of several ops share; the rules of a family stand beside its records (`dfc/ops/<family>/rules.py`), and
passes ask through `lookup`. Nothing here knows a pass. Read `op_rules` first.
"""
