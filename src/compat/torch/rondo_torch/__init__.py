"""torch.distributed over Rondo: init_process_group("rondo")."""

import torch.distributed

from rondo_torch._C import Options, ProcessGroupRondo
from rondo_torch_autoload import register

__all__ = ["Options", "ProcessGroupRondo"]
__version__ = "0.1.0"

register()
