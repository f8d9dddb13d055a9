"""One module a command; each offers `command`."""
