"""Ops of neural networks: convolutions, pools, windows, images of other sizes, softmax and losses."""
