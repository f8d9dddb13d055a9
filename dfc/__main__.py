"""`python -m dfc`, and the command `dfc`: the command line; how ranks are started.

Guarantees that Ctrl-C never ends in a traceback: while modules are imported there is nothing to stop or to say.
"""

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """Runs the command line and exits with the code of what happened."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # unless whoever started it ignores it
    if is_heeded:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    # Only now: importing takes tens of milliseconds, in which Ctrl-C would end in a traceback without the line above.
    from dfc.deferred.collection import importing, leave_uncollected, seldom_collected

    with importing():
        from dfc.cli.main import main as run

    try:
        if is_heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        with seldom_collected():  # to the end: once looked for often again, garbage is looked for in all that is left
            try:
                run()
            finally:
                leave_uncollected()
    except KeyboardInterrupt:  # it came between two lines: before what runs there heeds it, or after
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
