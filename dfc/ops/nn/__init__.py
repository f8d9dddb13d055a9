"""Ops of neural networks: convolutions, pools, windows, images of other sizes, softmax and losses.

In: images and rows, channels last. Out: records of the ops. Read first: `convolution`, then `losses`.
"""
