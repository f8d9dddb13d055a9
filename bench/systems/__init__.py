"""One module a system. Each function prepares a case and returns the call to measure."""
