"""What commands print of what they have found out: tables for people, or one JSON object.

In: reports of the compiler, manifests, meters. Out: lines. Read first: `placement` (`dfc place`), then `simulation`,
`clusters` (`dfc inspect`), `speed` (`dfc speed`) and `runs` (`dfc run`).
"""
