# SPDX-License-Identifier: Apache-2.0
"""What torch knows of the group that it is creating, but does not pass to the backend.

torch calls the function that makes a backend from `_new_process_group_helper`; the group's
description, its name and the backends of other devices are variables there. Each is looked up for
itself: a torch that calls them otherwise costs the name of the communicator, or the refusal of a
mixed group, and nothing else.
"""

from __future__ import annotations

import sys

import torch.distributed as dist

HELPER = "_new_process_group_helper"
UNDESCRIBED = (None, "", "undefined")


def variable(name: str) -> object:
    """Of the group being created; None: not there."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != HELPER:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


def other_devices() -> dict[str, str]:
    """Devices of the group being created that have another backend than rondo."""
    config = variable("backend_config")
    if not isinstance(config, dist.BackendConfig):
        return {}
    return {d: b for d, b in config.get_device_backend_map().items() if b != "rondo"}


def title() -> str:
    """The group's description (group_desc), else its name; as in `rondo ps` and the metrics."""
    description, name = variable("group_desc"), variable("group_name")
    if description not in UNDESCRIBED:
        return str(description)
    return "" if name in UNDESCRIBED else f"group {name}"
