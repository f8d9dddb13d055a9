"""The process that compiles module texts beside another one: texts on standard input, each behind its speed level,
objects on standard output.

The arguments are the name of a machine and its tuning; the format is that of `parallel`.
It ends when its input does, or at the first text that LLVM refuses: whoever asked says why.
"""

import os
import sys
from dataclasses import replace

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.link.compile import compile_object
from dfc_target_cpu.link.parallel import receive, send
from dfc_target_cpu.machine import machine_named


def main(name: str, tuning: str) -> None:
    """Serves until the end of the input."""
    known = machine_named(name)
    assert known is not None
    machine = replace(known, tuning=tuning)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what else prints does not belong to the answers
        try:
            while True:
                speed_level = int(receive(sys.stdin.buffer))
                text = receive(sys.stdin.buffer).decode()
                send(answers, compile_object(text, machine, speed_level=speed_level))
        except (EOFError, BrokenPipeError, CodeGenerationError, KeyboardInterrupt):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
