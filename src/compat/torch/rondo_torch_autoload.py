"""Makes "rondo" a backend of torch.distributed as soon as torch is imported, without loading Rondo.

torch calls register() for the entry point that pyproject.toml declares in the group torch.backends;
TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off. Rondo's library is loaded with the first group.
"""


def _create(place, options=None):
    from rondo_torch import _C, _prepare_end
    _prepare_end()
    return _C.create(place, options)


def register():
    """Does nothing where it was called before, or torch has no torch.distributed."""
    import torch.distributed as dist
    if dist.is_available() and not hasattr(dist.Backend, "RONDO"):
        dist.Backend.register_backend("rondo", _create, extended_api=True, devices=["cpu", "cuda"])
