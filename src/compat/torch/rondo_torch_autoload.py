"""Makes "rondo" a backend of torch.distributed as soon as torch is imported, without loading Rondo.

torch calls register() for the entry point that pyproject.toml declares in the group torch.backends;
TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off. Rondo's library is loaded with the first group.
"""

import functools
import multiprocessing.process
import sys


def _create(place, options=None):
    from rondo_torch import _C, _prepare_end
    _prepare_end()
    return _C.create(place, options)


def _watch_processes():
    """Lets rondo_torch know when a process of multiprocessing ends, and by which exception:
    multiprocessing handles that before the process comes to its exit handlers, if it runs them."""
    run = multiprocessing.process.BaseProcess.run

    @functools.wraps(run)
    def watched(self):
        raised = None
        try:
            run(self)
        except BaseException as one:
            raised = one
            raise
        finally:
            if "rondo_torch" in sys.modules:
                sys.modules["rondo_torch"]._end_child(raised)

    multiprocessing.process.BaseProcess.run = watched


def register():
    """Does nothing where it was called before, or torch has no torch.distributed."""
    import torch.distributed as dist
    if dist.is_available() and not hasattr(dist.Backend, "RONDO"):
        dist.Backend.register_backend("rondo", _create, extended_api=True, devices=["cpu", "cuda"])
        _watch_processes()
