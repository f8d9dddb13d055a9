"""The plan of a bundle, read: in comes its JSON, out come checked steps, in the segments that a device does by itself.

Read first: `plan_format`; `products` and `convolutions` are what a plan says of launches that libraries may make.
"""
