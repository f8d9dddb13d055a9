"""Module text to one flat image that imports nothing. Read first: `build`, then `image`."""
