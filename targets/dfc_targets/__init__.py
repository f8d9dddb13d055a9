"""dfc_targets."""
