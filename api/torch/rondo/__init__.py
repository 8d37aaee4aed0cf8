"""Rondo: collective communication. `rondo.torch` is its backend for torch.distributed."""

__version__ = "0.1.0"
