"""What libraries of NVIDIA may make of a program, chosen and put into its plan. Read first: `splitting`.

In: kernels and their texts. Out: records of the plan.
"""
