"""One program on many ranks: messages, edges, sums over ranks, calls, and waiting that never hangs in silence."""
