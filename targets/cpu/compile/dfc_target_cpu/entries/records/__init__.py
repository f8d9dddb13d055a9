"""Code that answers requests about records by itself: in come sites, out comes code of entries.

`requests` takes records out of blocks and fields out of records; `checksums` compares their frames, `examples` takes
`tf.train.Example` apart, `images` has processes decode, `resizing` resizes what is decoded. Read `requests` first.
"""
