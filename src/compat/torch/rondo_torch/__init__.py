"""torch.distributed over Rondo: init_process_group("rondo")."""

import atexit
import contextlib
import os
import sys

import torch.distributed

from rondo_torch._C import Options, ProcessGroupRondo
from rondo_torch_autoload import register

__all__ = ["Options", "ProcessGroupRondo"]
__version__ = "0.1.0"

register()


_made_in = None  # the process that made the groups: not its forked children


def _end_groups(raised=None):
    """Waits for calls in flight. Otherwise the other ranks would see this rank die, and a thread
    that frees a tensor without an interpreter would abort the process. After an exception it ends
    them: the other ranks may never make these calls, and must hear of the exception at once."""
    dist = torch.distributed
    if os.getpid() != _made_in or not dist.is_initialized() or dist.get_backend() != "rondo":
        return
    if raised is not None:
        text = type(raised).__name__
        with contextlib.suppress(Exception):  # str() is the program's own code
            text += f": {raised}" if str(raised) else ""
        text = text.encode(errors="replace").decode()  # Rondo's texts are UTF-8
        for group in list(dist.distributed_c10d._world.pg_map):
            with contextlib.suppress(AttributeError, RuntimeError):  # a group of another backend
                group._get_backend(torch.device("cpu"))._abort(f"its program raised {text}")
    dist.destroy_process_group()


@atexit.register
def _end_program():
    if hasattr(sys, "ps1"):  # an interactive program survives its exceptions
        _end_groups()
    else:
        _end_groups(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))


def _end_child(raised):
    """Called when a process of multiprocessing ends, with the exception that ends it, or None."""
    if isinstance(raised, SystemExit):
        raised = (raised.__context__ or raised) if raised.code else None
    _end_groups(raised)


def _prepare_end():
    """Called before a group is made."""
    global _made_in
    _made_in = os.getpid()
