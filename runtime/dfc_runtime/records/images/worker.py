"""A process that decodes images for another one, through a socket whose number it is given.

What is said is in `decoder_table`. It ends when the other end is closed, so also when the
other process is killed.
"""

from __future__ import annotations

import signal
import socket
import sys

from dfc_runtime.records.images.decoder_table import GREETING, REPLY, REQUEST
from dfc_runtime.records.images.decoding import DamagedImage, decode, require_decoder


def received(connection: socket.socket, size: int) -> bytearray | None:
    """So many bytes; None if the other end is closed."""
    data = bytearray(size)
    view, count = memoryview(data), 0
    while count < size:
        more = connection.recv_into(view[count:])
        if not more:
            return None
        count += more
    return data


def serve(connection: socket.socket) -> None:
    """Answers requests until there are no more."""
    while (head := received(connection, REQUEST.size)) is not None:
        length, height, width, wants_reason = REQUEST.unpack(head)
        data = received(connection, length)
        if data is None:
            return
        try:
            pixels = decode(bytes(data), height, width)
        except DamagedImage as problem:
            reason = str(problem).encode()
            connection.sendall(REPLY.pack(len(reason)) + reason * wants_reason)
        else:
            connection.sendall(REPLY.pack(0))
            connection.sendall(pixels.tobytes())


def main() -> None:
    """Serves the other process until its end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the other process decides
    require_decoder()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            connection.sendall(GREETING)
            serve(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass


if __name__ == "__main__":
    main()
