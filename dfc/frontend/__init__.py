"""From text to a typed graph: syntax, names, types and shapes, effects, expansion."""
