"""What torch runs when it is imported (entry point of group torch.backends): never raises.

Only names are registered; the library is loaded by the first group that is made.
"""

from __future__ import annotations


def create(store, rank, size, timeout):
    from rondo.torch.process_group import RondoProcessGroup

    return RondoProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Makes backend "rondo" known to torch.distributed."""
    import torch.distributed as dist

    if not dist.is_available() or "RONDO" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("rondo", create, devices=["cpu"])


def autoload() -> None:
    try:
        register()
    except Exception:
        pass  # a failure here would break `import torch` for programs that have no use for Rondo
