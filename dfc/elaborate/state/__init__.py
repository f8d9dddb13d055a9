"""Variables, their first values, generators of random numbers, and what a program says to its host."""
