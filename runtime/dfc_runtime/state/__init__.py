"""Variables and random streams of a loaded program. Read first: `state`."""
