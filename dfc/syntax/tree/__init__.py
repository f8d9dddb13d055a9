"""The nodes of the syntax tree. Read first: `tree`, which lists them all."""
