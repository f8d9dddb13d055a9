"""What a start puts off until it is needed: methods of data classes (`dataclasses`), modules (`modules`) and the search
for plug-ins (`plug_ins`). `dfc check` of a small program is over before most of them are. Knows nothing of programs;
everything may import it."""
