"""A part of an entry as a program of its own."""
