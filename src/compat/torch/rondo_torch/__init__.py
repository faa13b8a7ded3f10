"""torch.distributed over Rondo: init_process_group("rondo")."""

import atexit
import os
import sys

import torch.distributed

from rondo_torch._C import Options, ProcessGroupRondo
from rondo_torch_autoload import register

__all__ = ["Options", "ProcessGroupRondo"]
__version__ = "0.1.0"

register()


@atexit.register
def _end_groups(process=os.getpid()):
    """Waits for calls in flight. Otherwise the other ranks would see this rank die, and a thread
    that frees a tensor without an interpreter would abort the process."""
    dist = torch.distributed
    raised = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if raised is not None:
        return  # the other ranks must hear of the end at once
    if os.getpid() == process and dist.is_initialized() and dist.get_backend() == "rondo":
        dist.destroy_process_group()
