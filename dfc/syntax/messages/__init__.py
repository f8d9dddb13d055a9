"""Why a text cannot be read: each explanation looks at the token that does not fit and at what stands around it.

Read first: `syntax_errors`.

In: the tokens of a text and where reading stopped. Out: a `Diagnostic`.
"""
