"""The library pyarrow: whether it is there, and what it raises for bytes that are damaged."""

from __future__ import annotations

from dfc_runtime.errors import UnsupportedError

HELPS = "install it: pip install 'dfc-runtime[arrow]'"


def require_arrow() -> None:
    """`UnsupportedError` where the library is missing."""
    try:
        import pyarrow  # only programs that read such files have it
    except ImportError as problem:
        text = (
            f"Parquet and Arrow files are read by the library pyarrow, which cannot be imported ({problem})\n  {HELPS}"
        )
        raise UnsupportedError(text, code="E1001") from None
    del pyarrow


def damages() -> tuple[type[Exception], ...]:
    """What it may raise where bytes are not what they should be."""
    import pyarrow as pa  # as above

    return pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError


def reason_of(problem: Exception) -> str:
    """What it says, in one line."""
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
