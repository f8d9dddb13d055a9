"""Starting, watching and ending the ranks of a job. Read first: `coordinator`, then `supervisor`."""
