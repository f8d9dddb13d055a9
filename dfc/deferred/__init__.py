"""What a start puts off until it is needed: methods of data classes (`dataclasses`), modules (`modules`), the search
for plug-ins (`plug_ins`) and the collection of garbage (`collection`). Many a command is over before most of them are.
Knows nothing of programs; everything may import it."""
