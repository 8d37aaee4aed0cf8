# SPDX-License-Identifier: Apache-2.0
"""Rondo: collective communication. `rondo.torch` is its backend for torch.distributed."""


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'rondo' has no attribute '{name}'")
    import importlib.metadata

    return importlib.metadata.version("rondo")
