# SPDX-License-Identifier: Apache-2.0
"""A group of Rondo with the ranks of a group of another backend, which stays as it is."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from rondo.torch.process_group import RondoProcessGroup


def timeout_of(group: dist.ProcessGroup) -> timedelta:
    backend = group._get_backend(torch.device("cpu"))
    own = getattr(getattr(backend, "options", None), "_timeout", None)
    return own or dist.constants.default_pg_timeout


def mirror(group: dist.ProcessGroup) -> RondoProcessGroup:
    """All ranks of the group call this at the same time. They meet in the group's store."""
    _, store = dist.distributed_c10d._world.pg_map[group]
    store = store or dist.distributed_c10d._get_default_store()  # None: split from another group
    own = dist.PrefixStore(f"rondo.mirror/{group.group_name}", store)
    return RondoProcessGroup(own, group.rank(), group.size(), timeout_of(group))
