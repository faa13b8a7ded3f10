"""torch.distributed over Rondo: import this, then init_process_group("rondo")."""

import torch.distributed

from rondo_torch._C import Options, ProcessGroupRondo, create

__all__ = ["Options", "ProcessGroupRondo"]

torch.distributed.Backend.register_backend("rondo", create, extended_api=True,
                                            devices=["cpu", "cuda"])
