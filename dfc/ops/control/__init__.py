"""Ops with regions, checks, and functions with gradients of their own."""
