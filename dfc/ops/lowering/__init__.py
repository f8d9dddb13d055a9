"""How ops become kernels: what a record says of it, and what follows from that.

In: a node. Out: the form of its lowering, and index maps. Read first: `forms`, then `index_maps`.
"""
