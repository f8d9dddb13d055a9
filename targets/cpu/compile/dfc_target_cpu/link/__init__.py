"""Module text to one flat image that imports nothing. Read first: `build`, then `image`.

In: LLVM text. Out: the bytes of an image, with an address for each entry.
"""
