"""Source texts, spans, and messages about them: in, a mistake with its spans; out, text for people or for other
programs.

Knows nothing of the language. Read first: `diagnostic` (what a message is), then `rendering` (how it is drawn).
"""
