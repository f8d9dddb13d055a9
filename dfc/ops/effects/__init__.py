"""Ops that do something besides making values: state, the host, messages between tasks."""
