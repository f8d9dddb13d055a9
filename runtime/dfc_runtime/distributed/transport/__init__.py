"""Bytes between ranks, and every wait for them. Read first: `comm`, then `waiting`.

In: bytes and the rank they are for. Out: the same bytes there, or an error that says who did not answer.
"""
