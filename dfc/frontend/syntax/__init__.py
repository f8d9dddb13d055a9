"""Text to syntax tree and back: parser, tree, printer, formatter, and the messages for syntax errors."""

from dfc.frontend.syntax.parser import parse, parse_recovering

__all__ = ["parse", "parse_recovering"]
