"""What a run says of itself: summaries, traces, measured kernels, checks for finite values, prints."""
