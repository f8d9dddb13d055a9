"""Deployment files: which tasks there are and what runs where. Everything about a program's *meaning* is elsewhere."""
