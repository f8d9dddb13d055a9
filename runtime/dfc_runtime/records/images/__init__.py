"""Images: in come the bytes of JPEG and PNG files, out come pixels of one size.

`decoding` has the library Pillow decode, `memory` says where its pixels are, and `resizing` calls generated code.
`worker` is a process that decodes for another one, `decoder_table` what native code says to it. Read `decoding` first.
"""
