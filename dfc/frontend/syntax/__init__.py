"""Text to syntax tree and back: parser, tree, printer, formatter, and the messages for syntax errors."""
