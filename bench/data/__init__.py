"""Input pipelines: how many images, records or elements of queues a second.

In: files that each program makes up. Out: lines of text, beside tf.data and PyTorch where their interpreters are
given. Read `records` first, then `images` and `augmentations`; `pipelines`, `queues` and `stages` read no files.
"""
