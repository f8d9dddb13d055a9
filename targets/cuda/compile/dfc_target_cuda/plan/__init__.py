"""From a program to its plan, and what is said of it to people. Read first: `plan`."""
