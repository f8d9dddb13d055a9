"""The plan of a program for a device, as its bundle carries it: checked steps, in segments that a device does alone.

Targets write plans, drivers read them. Read first: `plan`; `products` and `convolutions` are what a plan says of
launches that libraries may make.

In: JSON of a bundle. Out: checked steps; and back.
"""
