"""Bytes between ranks, and every wait for them. Read first: `comm`, then `waiting`."""
