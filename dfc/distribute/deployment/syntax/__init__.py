"""From the text of a deployment file to a `Deployment`, and from a text to its one layout.

In: a `SourceFile`. Out: the deployment, or one message a mistake that can be seen without the program. Read first:
`parse`, then `statements` (what it reads) and `assemble` (what becomes of them, with the `settings` behind `with`).
"""
