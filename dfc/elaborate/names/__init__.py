"""Which names are known where, what each stands for, and what is said about those that are not there."""
