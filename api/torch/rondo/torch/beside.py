# SPDX-License-Identifier: Apache-2.0
"""Rondo for the CPU tensors of a group that has another backend for its GPUs.

    init_process_group("cpu:rondo,cuda:nccl")

torch chooses such a group's backends by device only if each is a c10d::Backend, which Python can
subclass from torch 2.14 on. A ProcessGroup would get the tensors of all devices; it serves groups
of Rondo alone, on every torch, with one step less per call.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from rondo.torch.backend import HAS_PYTHON_BACKENDS, RondoBackend
from rondo.torch.process_group import RondoProcessGroup
from rondo.torch.untraced import untraced


class Beside(RondoBackend):
    def __init__(self, group: RondoProcessGroup) -> None:
        super().__init__(group)
        group.serves_torch()
        in_use.add(self)  # otherwise only C++ would hold a reference

    def shutdown(self) -> None:
        super().shutdown()
        in_use.discard(self)

    def abort(self) -> None:
        super().abort()
        in_use.discard(self)


in_use: set[Beside] = set()
untraced(Beside)


def create_beside(
    others: dict[str, str], store: dist.Store, rank: int, size: int, timeout: timedelta
) -> Beside:
    if not HAS_PYTHON_BACKENDS:
        names = ",".join(f"{device}:{backend}" for device, backend in others.items())
        raise RuntimeError(
            f"rondo: 'cpu:rondo' beside '{names}' in one group needs torch 2.14 or newer, this is "
            f"{torch.__version__}; make two groups instead, new_group(backend='rondo') for CPU "
            "tensors and one for the others"
        )
    return Beside(RondoProcessGroup(store, rank, size, timeout))
