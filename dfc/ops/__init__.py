"""What each op means: one record each. Knows no pass and no target."""
