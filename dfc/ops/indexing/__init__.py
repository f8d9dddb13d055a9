"""Ops that read or write by position: slices, gathers, scatters, segments, sorting and what is made of it."""
