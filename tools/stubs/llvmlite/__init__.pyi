"""What the CPU target uses of llvmlite, which has no types of its own."""

__version__: str
