"""The run half of the target `cpu`: maps code images and calls them. Needs the runtime and nothing of the compiler.

Read first: `driver`.

In: an image and addresses. Out: calls of its entries.
"""
