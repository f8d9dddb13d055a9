"""Files of records, what input pipelines read: in come paths, out come records that were compared with their frames.

`framing` says how records lie in a file, `index` (kept by `stored_index`) where they are, `reading` gets them at
random, `writing` publishes new files whole. `permutation` and `stream` say which record comes at which position, as
functions of numbers alone; `example` and `columns` what is in a record that is a `tf.train.Example`. `files` is what
other formats share with frames: `text` (lines, and tables in CSV), `arrays`, `archives` and `columnar` (Parquet and
Arrow), whose records are, but for lines, `packing` of typed `fields`; all of them are in `formats`. `images` are
decoded and resized in a folder of their own. Read `framing` and `files` first. Nothing here knows of programs, queues
or ranks: numbers come in, records go out.
"""
