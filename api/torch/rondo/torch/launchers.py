# SPDX-License-Identifier: Apache-2.0
"""Ranks started by mpirun or srun, for scripts that expect torchrun's variables."""

from __future__ import annotations

import ctypes
import os
import socket

from rondo.torch.library import Launched, lib

MEETING_SECONDS = 300.0


def launched() -> Launched:
    found = Launched()
    if lib.rondoLaunchRead(ctypes.byref(found)) != 0:
        raise RuntimeError(f"rondo: {lib.ncclGetLastError(None).decode()}")
    return found


def set_variables(requires_master: bool = True) -> None:
    """RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets
    them. Without a launcher: a world of one rank, as in MPI. Collective if all ranks are on one
    host and MASTER_ADDR is not set: rank 0 sends a free port to the others."""
    me = launched()
    os.environ.update(RANK=str(me.rank), WORLD_SIZE=str(me.size))
    for name, value in (("LOCAL_RANK", me.localRank), ("LOCAL_WORLD_SIZE", me.localSize)):
        if value >= 0:
            os.environ[name] = str(value)
    host, port = me.masterAddr.decode(), me.masterPort or 29500
    if not host or (me.localSize == me.size and "MASTER_ADDR" not in os.environ):
        if 0 <= me.localSize < me.size:
            if not requires_master:
                return
            raise RuntimeError(
                f"rondo: {me.size} ranks are on several hosts, but MASTER_ADDR is not set: "
                "set MASTER_ADDR to the host of rank 0 (mpirun -x MASTER_ADDR=...)"
            )
        host, port = "127.0.0.1", port_of_rank_zero(me)
    os.environ.setdefault("MASTER_ADDR", host)
    os.environ.setdefault("MASTER_PORT", str(port))


def port_of_rank_zero(me: Launched) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if me.size == 1:
        return port
    launch, received = ctypes.c_void_p(), ctypes.c_void_p()
    sizes = (ctypes.c_size_t * me.size)()
    mine = str(port).encode() if me.rank == 0 else b""
    for code in (
        lib.rondoLaunchMeet(
            ctypes.byref(launch), me.rank, me.size, me.localSize, 0, MEETING_SECONDS
        ),
        lib.rondoLaunchExchange(
            launch, mine, len(mine), ctypes.byref(received), sizes, MEETING_SECONDS
        ),
    ):
        if code != 0:
            raise RuntimeError(f"rondo: {lib.ncclGetLastError(None).decode()}")
    port = int(ctypes.string_at(received, sizes[0]))
    lib.rondoLaunchLeave(launch)
    return port
