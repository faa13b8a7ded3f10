"""torch.distributed over Rondo: init_process_group("rondo")."""

import atexit
import contextlib
import multiprocessing.util
import os
import sys
import traceback

import torch.distributed

from rondo_torch._C import Options, ProcessGroupRondo
from rondo_torch_autoload import register

__all__ = ["Options", "ProcessGroupRondo"]
__version__ = "0.1.0"

register()


def _end_groups(raised=None):
    """Waits for calls in flight. Otherwise the other ranks would see this rank die, and a thread
    that frees a tensor without an interpreter would abort the process. After an exception it ends
    them: the other ranks may never make these calls, and must hear of the exception at once."""
    dist = torch.distributed
    if not dist.is_initialized() or dist.get_backend() != "rondo":
        return
    if raised:
        text = traceback.format_exception_only(raised)[-1].strip()
        for group in list(dist.distributed_c10d._world.pg_map):
            with contextlib.suppress(AttributeError, RuntimeError):  # a group of another backend
                group._get_backend(torch.device("cpu"))._abort(f"its program raised {text}")
    dist.destroy_process_group()


@atexit.register
def _end_program(process=os.getpid()):
    if os.getpid() == process:
        _end_groups(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))


def _end_child():
    raised = sys.exc_info()[1]
    if isinstance(raised, SystemExit):
        raised = raised.code and (raised.__context__ or raised)
    if raised:
        _end_groups(raised)


def _prepare_end():
    """Called before a group is made. multiprocessing handles the exceptions of its processes before
    they come to their exit, so its finalizer looks for them."""
    if multiprocessing.parent_process():
        multiprocessing.util.Finalize(None, _end_child, exitpriority=0)
