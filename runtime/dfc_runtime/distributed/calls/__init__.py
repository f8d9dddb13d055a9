"""Calls on many ranks: who calls, who follows, what travels. Read first: `client`, then `follower`."""
