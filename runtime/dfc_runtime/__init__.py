"""dfc_runtime."""
