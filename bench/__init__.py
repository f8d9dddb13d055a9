"""Timings against peers: `python -m bench [CASE ...]`.

Every system runs in a process of its own that has prepared its case and waits; the driver lets the systems measure in
turn, a slice of time each, round after round, so that a drift of the machine's speed meets all of them alike. What is
printed is the best and the median call of each system, and the ratio of the best peer to dfc. Arrays are float32.
"""
