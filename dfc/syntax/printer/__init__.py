"""Tree to text: the inverse of the reader (`printer`), and the one layout of programs (`formatter`)."""
