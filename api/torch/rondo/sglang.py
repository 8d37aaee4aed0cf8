# SPDX-License-Identifier: Apache-2.0
"""Rondo in the groups that SGLang makes on CPUs.

The entry point of group sglang.srt.plugins runs register() in each process of SGLang. From then on
each GroupCoordinator has a group of backend "rondo" in place of gloo's for its data; gloo stays for
control messages. SGLang's own shared-memory kernel (some types, one host, all ranks) is not used.
SGLANG_PLUGINS without "rondo" turns it off. Where Rondo cannot run, one line on stderr says why.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from rondo.known_torch import explained

STATE = "sglang.srt.distributed.parallel_state"


@functools.cache  # a second call changes nothing
def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    try:
        with explained():
            from rondo.torch import traced
    except Exception as error:  # the reason, without SGLang's traceback
        why = str(error).removeprefix("rondo: ")
        print(f"rondo: SGLang keeps its own communication: {why}", file=sys.stderr)
        return

    def all_reduce(theirs: Any, group: Any, input_: Any) -> Any:
        number = getattr(group, "rondo_number", None)
        if number is None or not input_.is_cpu:
            return theirs(group, input_)
        traced.all_reduce(number, input_)
        return input_

    hooks = {
        f"{STATE}.GroupCoordinator.__init__": (lambda _, group, *__, **___: join(group), "AFTER"),
        f"{STATE}.GroupCoordinator.all_reduce": (all_reduce, "AROUND"),
        f"{STATE}.is_shm_available": (lambda theirs, *_: False, "AROUND"),
    }
    for target, (hook, kind) in hooks.items():
        HookRegistry.register(target, hook, HookType[kind])


def join(group: Any) -> None:
    """The ranks of a coordinator that has just been made meet on Rondo."""
    import torch.distributed as dist

    from rondo.autoload import register as register_backend
    from rondo.torch import traced

    if group.world_size == 1 or dist.get_backend(group.device_group) != "gloo":
        return
    register_backend()
    group.device_group = dist.new_group(
        group.ranks, backend="rondo", use_local_synchronization=True
    )
    group.rondo_number = traced.number_of(group.device_group)
