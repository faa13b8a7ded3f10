"""The end of the program: closes all communicators, and finds out whether the program fails.

A program that succeeds waits for its calls in flight. One that fails does not: the other ranks may
never make these calls.
"""

import atexit
import functools
import sys
import threading

from rondo import _rondo


def watch():
    """Wraps sys.exit(): Python tells exit handlers of an uncaught exception, but of no status."""
    leave = sys.exit

    @functools.wraps(leave)
    def exit(status=None, /):
        if threading.current_thread() is threading.main_thread() and not _interactive():
            _rondo._program_ends(SystemExit(status))
        leave(status)

    sys.exit = exit
    atexit.register(_end)


def _end():
    """A communicator that is never closed would leave the group only when the process has ended,
    and hand nothing over to ranks that go on."""
    if not _interactive():
        _rondo._program_ends(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))
    _rondo._close_all()


def _interactive():
    """An interactive program survives its exceptions."""
    return hasattr(sys, "ps1")
