"""The prelude of kernel texts: in come kernel functions, out come functions of text, and of the device.

Read first: `prelude`, which lists the names; `text_functions` is the grammar of texts, `device_functions` writes kernel
functions as text, `device` says what the primitives are on a device, with `access`, `tensor` and `intrinsics`.
"""
