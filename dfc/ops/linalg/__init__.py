"""Products of matrices, and what is solved and factored with them."""
