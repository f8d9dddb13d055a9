"""The errors a user of dfc can meet, as Python exceptions.

Assumes nothing: the compiler and the targets import this module, never the reverse.
Guarantees that every error carries a code (`E0901`), a message that stands alone, the source locations it
talks about, and the exit code of a command that ends with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

PLURALS: Final = {"axis": "axes", "index": "indices", "process": "processes", "entry": "entries"}
"""Of nouns that take more than an s; `counted` knows no other."""


def counted(count: object, noun: str, form: str = "") -> str:
    """How many of a thing there are, as a message says it: `1 task`, `2 tasks`. `form` is that of the number."""
    number = format(count, form)
    return f"{number} {noun if number == '1' else PLURALS.get(noun, noun + 's')}"


class Location(Protocol):
    """A place in a program; the compiler's spans and the runtime's source records both are one."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class DfcError(Exception):
    """The root of all errors that are the user's to repair, or to wait out."""

    exit_code: int = 1

    def __init__(self, message: str, *, code: str = "", spans: Iterable[Location] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.spans: tuple[Location, ...] = tuple(spans)

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" if self.code else self.message


class FeedError(DfcError):
    """A feed does not fit the signature of its entry."""

    exit_code = 2


class RunError(DfcError):
    """A program failed while it ran: an assertion, an index out of range. `values` are the numbers of the message."""

    exit_code = 2

    def __init__(
        self, message: str, *, code: str = "", spans: Iterable[Location] = (), values: Iterable[int] = ()
    ) -> None:
        super().__init__(message, code=code, spans=spans)
        self.values: tuple[int, ...] = tuple(values)

    @property
    def line(self) -> int:
        """The line of the program that failed; 0 if no line did."""
        return self.spans[0].line if self.spans else 0


class WaitError(RunError, TimeoutError):
    """The time is over in which a call was to get what it waits for: an element of a queue, room in it, a mutex."""


class EndOfData(DfcError):
    """A source has nothing more to give; ends a loop over steps."""

    exit_code = 2


class RecordError(DfcError):
    """A record, or a file of records, is not what it has to be. `record` and `offset` say where, -1 if nowhere."""

    exit_code = 2

    def __init__(self, message: str, *, code: str, file: str = "", record: int = -1, offset: int = -1) -> None:
        super().__init__(message, code=code)
        self.file = file
        self.record = record
        self.offset = offset


class UnsupportedError(DfcError):
    """The program is correct, but this version or target cannot do it."""

    exit_code = 3


class BundleError(DfcError):
    """A bundle is damaged, of another format version, or not for this machine."""

    exit_code = 4


class CheckpointError(DfcError):
    """A checkpoint is damaged, missing, or does not fit the program."""

    exit_code = 5


class FileError(DfcError):
    """A file cannot be opened, read or written: it is not there, permission, a full disk."""

    exit_code = 6


class LimitError(DfcError):
    """Something is larger than a stated limit, or than the memory."""

    exit_code = 7


class RankError(DfcError):
    """A rank died or a deadline passed; a restart may help."""

    exit_code = 75


class RankCountError(DfcError):
    """The number of ranks is not one the program can run on."""

    exit_code = 2
