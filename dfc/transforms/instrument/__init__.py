"""Passes that add checks, and run only when asked for."""
