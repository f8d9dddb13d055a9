"""Ops that move elements and change none of them."""
