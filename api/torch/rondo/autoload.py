# SPDX-License-Identifier: Apache-2.0
"""What torch runs when it is imported (entry point of group torch.backends). It never raises.

Registers names; the first group that is created loads the library. Under rondo.torch.run it also
maps the backends and devices that the script names; under rondo watch it reports the calls of gloo.
"""

from __future__ import annotations

import os
import sys

from rondo.known_torch import explained


@explained()
def create(options, backend_options=None):
    """Creates a group from torch's DistributedBackendOptions. Only its members create it, even if
    it could be split from another group."""
    from rondo.torch.beside import create_beside, other_devices
    from rondo.torch.groups import shrink_here_too
    from rondo.torch.process_group import RondoProcessGroup

    shrink_here_too()
    place = options.store, options.group_rank, options.group_size, options.timeout
    reconfigures = getattr(options, "enable_reconfigure", False)  # torch 2.15 or newer
    if (others := other_devices()) and not reconfigures:
        return create_beside(others, *place)
    if reconfigures:
        from rondo.torch.reconfigure import ReconfigurableGroup

        return ReconfigurableGroup(*place, others)
    group = RondoProcessGroup(*place)
    if hasattr(backend_options, "ordered_sums"):
        backend_options.apply(group)
    around = getattr(options, "process_group", None)  # torch 2.15 or newer
    if around is not None and around.bound_device_id is not None:
        group.bound_device_id = around.bound_device_id
    return group


def register() -> None:
    """Registers backend "rondo" with torch.distributed. It is the entry point of
    torch.distributed.backends, which torch 2.15 calls when it meets the name."""
    import torch.distributed as dist

    if not dist.is_available() or "RONDO" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("rondo", create, extended_api=True, devices=["cpu"])


@explained()
def map_names() -> None:
    from rondo.torch import devices, renaming

    device = os.environ.get("RONDO_TORCH_DEVICE")
    renaming.rename(cuda_stays=bool(device) and device != "cpu")
    if device:
        devices.pretend(device)
    else:
        devices.explain_missing()


@explained()
def watch_gloo() -> None:
    from rondo.torch import watch

    watch.install()


def autoload() -> None:
    try:
        register()
        if os.environ.get("RONDO_TORCH_RUN") == "1":
            map_names()
        elif os.environ.get("RONDO_TORCH_WATCH") == "1":
            watch_gloo()
    except Exception as error:  # otherwise `import torch` fails
        print(f"rondo: PyTorch runs without Rondo: {error!r}", file=sys.stderr)
