"""Reports: what follows from the records of a run, as a table in Markdown and as a chart.

In: the JSON of a run, nothing else. Out: text. Read `arithmetic.py` first.
"""
