"""Records in files of text: lines as they are, and rows of tables in CSV as packed records.

In: the bytes of a file, in an encoding that keeps ASCII as it is. Out: where its records lie, and numbers in NumPy
arrays. Read first: `lines`, then `tables`, whose numbers are read by `cells`.
"""
