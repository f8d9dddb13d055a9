"""What a start puts off until it is needed: methods of data classes (`dataclasses`).
`dfc check` of a small program is over before most of them are. Knows nothing of programs; everything may import it."""
