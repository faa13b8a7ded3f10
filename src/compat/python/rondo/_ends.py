"""The end of the program: closes all communicators, and finds out whether the program fails.

A program that succeeds waits for its calls in flight. One that fails does not: the other ranks may
never make these calls.
"""

import atexit
import functools
import sys
import threading

from rondo import _rondo

_at_exit = None  # the last uncaught exception when sys.exit() was called last


def watch():
    """Wraps sys.exit(), because exit handlers can see an uncaught exception (sys.last_exc), but not
    the exit status."""
    leave = sys.exit

    @functools.wraps(leave)
    def exit(status=None, /):
        global _at_exit
        if threading.current_thread() is threading.main_thread() and not _interactive():
            _at_exit = _uncaught()
            _rondo._program_ends(SystemExit(status))
        leave(status)

    sys.exit = exit
    atexit.register(_end)


def _end():
    """A communicator that is never closed would leave the group only when the process has ended,
    and hand nothing over to ranks that go on."""
    # Python, or a tool as pytest, may have noted an exception long before sys.exit().
    if not _interactive() and _uncaught() is not _at_exit:
        _rondo._program_ends(_uncaught())
    _rondo._close_all()


def _uncaught():
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _interactive():
    """An interactive program survives its exceptions."""
    return hasattr(sys, "ps1")
