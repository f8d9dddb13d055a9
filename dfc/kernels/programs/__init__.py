"""What a target asks of a scheduled program as a whole: in come its steps, out come facts about them, and no code.

`outline` cuts long lists of steps into functions, `interruption` says where a call may stop and what is put back then,
`faults` which kernels run after something may have failed. Read `dfc/kernels/program.py` first, whose steps these are.
"""
