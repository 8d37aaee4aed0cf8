# SPDX-License-Identifier: Apache-2.0
"""Rondo in the place of vLLM's CPU communicator.

Installed beside vLLM, this needs no setting: the entry point of group vllm.general_plugins runs
register() in each process of vLLM. VLLM_PLUGINS without "rondo" turns it off. Where Rondo cannot
run, one line on stderr says why and vLLM keeps its own communicator.
"""

from __future__ import annotations

import sys

from rondo.known_torch import explained

COMMUNICATOR = "rondo.vllm.communicator.RondoCommunicator"


def register() -> None:
    """Makes vLLM's CPU platform name Rondo's communicator. vLLM may call this several times in a
    process; on other platforms it changes nothing."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    try:
        with explained():
            import rondo.vllm.communicator  # noqa: F401  loads the library
    except Exception as error:  # vLLM would end
        why = str(error).removeprefix("rondo: ")
        print(f"rondo: vLLM keeps its own communicator: {why}", file=sys.stderr)
        return
    type(current_platform).get_device_communicator_cls = classmethod(lambda _: COMMUNICATOR)
